"""Trains the demo model: AdamW, cosine schedule, bf16 arithmetic with float32 weights.

    train.py tokens.npy weights.pt [--steps 10000] [--rows 64] [--rate 3e-3] [--seed 1]
"""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn.functional as F

from llama_torch import SHAPE, Llama

BOS = 0


def batch(stream, starts, rows, length, g):
    """Rows of the stream, each after a BOS. Four of five begin with a story, the others anywhere: a text may also begin in mid-story."""
    draw = lambda n: torch.randint(0, n, (rows, 1), device=stream.device, generator=g)
    at = torch.where(draw(5) < 4, starts[draw(len(starts))], draw(len(stream) - length))
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
    args = p.parse_args()

    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    ids = np.load(args.tokens)
    stream = torch.from_numpy(ids.astype(np.int16)).cuda()
    cut = len(stream) - min(2_000_000, len(stream) // 10)
    stream, held = stream[:cut], stream[cut:]
    first = lambda t: (t[:-SHAPE["context"] - 1] == BOS).nonzero()[:, 0] + 1
    starts, held_starts = first(stream), first(held)
    model = Llama().cuda()
    print("parameters:", sum(q.numel() for q in model.parameters()))
    g = torch.Generator("cuda").manual_seed(args.seed)
    wide = [q for q in model.parameters() if q.dim() == 2]
    thin = [q for q in model.parameters() if q.dim() == 1]
    opt = torch.optim.AdamW([dict(params=wide, weight_decay=.1), dict(params=thin, weight_decay=0.)], lr=args.rate, betas=(.9, .95), fused=True)

    @torch.compile
    def loss_of(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(x)
        return F.cross_entropy(logits.float().view(-1, SHAPE["vocab"]), y.view(-1))

    def check():
        gv = torch.Generator("cuda").manual_seed(0)
        with torch.no_grad():
            return sum(loss_of(*batch(held, held_starts, args.rows, SHAPE["context"], gv)).item() for _ in range(4)) / 4

    start = time.time()
    for step in range(args.steps):
        warm = min(1., (step + 1) / 200)
        rate = args.rate * warm * (.02 + .98 * .5 * (1 + math.cos(math.pi * step / args.steps)))
        for group in opt.param_groups:
            group["lr"] = rate
        loss = loss_of(*batch(stream, starts, args.rows, SHAPE["context"], g))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step == 20:
            torch.cuda.synchronize()
            mark = time.time()
        if step % args.check == 0 or step == args.steps - 1:
            value = loss.item()
            speed = args.rows * SHAPE["context"] * (step - 20) / (time.time() - mark) if step > 20 else 0
            print("step %d loss %.4f held-out %.4f, %.1f s, %.2f Mtokens/s" % (step, value, check(), time.time() - start, speed / 1e6), flush=True)
    torch.save({k: v.float().cpu() for k, v in model.state_dict().items()}, args.weights)


if __name__ == "__main__":
    main()
