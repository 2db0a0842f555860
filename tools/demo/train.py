"""Trains the demo model: AdamW, cosine schedule, bf16 arithmetic with float32 weights.

    train.py tokens.npy weights.pt [--steps 10000] [--rows 64] [--rate 3e-3] [--seed 1] [--shape demo] [--seconds S]

With --seconds the number of steps is set, after the first hundred, to what the time allows.
"""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn.functional as F

from llama_torch import SHAPES, Llama

BOS = 0


def batch(stream, starts, rows, shape, g):
    """Rows of the stream, each after a BOS. Some (of the demo four of five) begin with a story, the others anywhere: a text may also begin in mid-story."""
    length = shape["context"]
    draw = lambda n: torch.randint(0, n, (rows, 1), device=stream.device, generator=g)
    at = torch.where(draw(5) < shape["at_start"], starts[draw(len(starts))], draw(len(stream) - length))
    y = stream[at + torch.arange(length, device=stream.device)].long()
    return torch.cat((torch.full_like(y[:, :1], BOS), y[:, :-1]), 1), y


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tokens")
    p.add_argument("weights")
    p.add_argument("--steps", type=int, default=10000)
    p.add_argument("--rows", type=int, default=64)
    p.add_argument("--rate", type=float, default=3e-3)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--check", type=int, default=1000)
    p.add_argument("--shape", choices=sorted(SHAPES), default="demo")
    p.add_argument("--seconds", type=float, default=0, help="compilation is not counted")
    args = p.parse_args()
    shape = SHAPES[args.shape]
    device = "cuda" if torch.cuda.is_available() else "cpu"

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    ids = np.load(args.tokens)
    stream = torch.from_numpy(ids.astype(np.int16)).to(device)
    cut = len(stream) - min(2_000_000, len(stream) // 10)
    stream, held = stream[:cut], stream[cut:]
    first = lambda t: (t[:-shape["context"] - 1] == BOS).nonzero()[:, 0] + 1
    starts, held_starts = first(stream), first(held)
    model = Llama(shape).to(device)
    print("parameters:", sum(q.numel() for q in model.parameters()))
    g = torch.Generator(device).manual_seed(args.seed)
    wide = [q for q in model.parameters() if q.dim() == 2]
    thin = [q for q in model.parameters() if q.dim() == 1]
    opt = torch.optim.AdamW([dict(params=wide, weight_decay=.1), dict(params=thin, weight_decay=0.)], lr=args.rate, betas=(.9, .95), fused=True)

    @torch.compile
    def loss_of(x, y):
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(x)
        return F.cross_entropy(logits.float().view(-1, shape["vocab"]), y.view(-1))

    def check():
        gv = torch.Generator(device).manual_seed(0)
        with torch.no_grad():
            return sum(loss_of(*batch(held, held_starts, args.rows, shape, gv)).item() for _ in range(4)) / 4

    start = time.time()
    step = 0
    while step < args.steps:
        warm = min(1., (step + 1) / 200)
        rate = args.rate * warm * (.02 + .98 * .5 * (1 + math.cos(math.pi * step / args.steps)))
        for group in opt.param_groups:
            group["lr"] = rate
        loss = loss_of(*batch(stream, starts, args.rows, shape, g))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step in (20, 100):
            loss.item()     # waits for the device
            now = time.time()
            if step == 20:
                mark = now
            elif args.seconds:
                args.steps = 101 + max(0, int((args.seconds - (now - mark)) / (now - mark) * 80))
                print("steps:", args.steps, flush=True)
        if step % args.check == 0 or step == args.steps - 1:
            value = loss.item()
            speed = args.rows * shape["context"] * (step - 20) / (time.time() - mark) if step > 20 else 0
            print("step %d loss %.4f held-out %.4f, %.1f s, %.2f Mtokens/s" % (step, value, check(), time.time() - start, speed / 1e6), flush=True)
        step += 1
    torch.save({k: v.float().cpu() for k, v in model.state_dict().items()}, args.weights)


if __name__ == "__main__":
    main()
