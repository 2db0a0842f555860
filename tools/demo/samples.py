"""Writes sample stories, greedy and at temperature 0.8, and checks PyTorch in float64 against reference.py.

    samples.py demo.gguf tokenizer.json [COUNT]
"""
import sys

import numpy as np
import torch
from tokenizers import Tokenizer

import reference
from llama_torch import Llama, write_on

PROMPTS = ["Once upon a time", "Once upon a time, there was a little fox named Pip.", "Tom was a little boy who", "One day, a bear", "In a small house by the sea, there lived",
           "The moon was shining, and", "Lily was a little girl who loved to paint. One day,", "One day, a brave knight named Roland", "Once upon a time, there was a girl named Beatrice who", "Whiskers the cat", "There once was a small robot named Zap. Zap was afraid of", "A long time ago, there was a little girl named Mia. She lived in a house with a blue door."]


def main(gguf, tokenizer, count="24"):
    ref, tok = reference.Model(gguf), Tokenizer.from_file(tokenizer)
    model = Llama()
    model.load_state_dict({k: torch.from_numpy(v) for k, v in ref.w.items()})
    model = model.double()
    probe = [0] + tok.encode("Once upon a time, there was a little fox named Pip. He lived in a cozy den.").ids
    with torch.no_grad():
        difference = np.abs(model(torch.tensor([probe]))[0].numpy() - ref.logits(probe)).max()
    print("PyTorch float64 against reference.py: %.2e" % difference)
    assert difference < 1e-7
    model = model.float().cuda()
    g = torch.Generator("cuda").manual_seed(5)

    def show(prompt, temperatures):
        ids = torch.tensor([[0] + tok.encode(prompt).ids] * len(temperatures)).cuda()
        for t, row in zip(temperatures, write_on(model, ids, 480, temperatures, g).tolist()):
            end = row.index(1) if 1 in row else len(row)
            print("## temperature %.1f, %r, %d tokens%s" % (t, prompt, end, "" if 1 in row else " (no end)"))
            print(tok.decode(row[1:end]), "\n")

    show("", [.8] * int(count))
    for prompt in PROMPTS:
        show(prompt, [0., .8, .8])


if __name__ == "__main__":
    main(*sys.argv[1:])
