"""Trains the byte-level BPE vocabulary and encodes the stories.

    make_tokens.py TEXT_DIR tokenizer.json tokens.npy [--vocab 2048]
"""
import argparse
import glob
import multiprocessing
import os

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

BOS, EOS = 0, 1
TRAIN_PARTS = 4     # enough text to see every word many times


def read(path):
    with open(path) as f:
        return f.read().split("\0")[:-1]


def train(paths, vocab):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=["<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tok.train_from_iterator((doc for p in paths for doc in read(p)), trainer)
    return tok


def encode(job):
    path, tokenizer = job
    tok = Tokenizer.from_file(tokenizer)
    out = []
    docs = read(path)
    for i in range(0, len(docs), 1000):
        for e in tok.encode_batch(docs[i:i + 1000]):
            out.append(np.array([BOS] + e.ids + [EOS], dtype=np.uint16))
    return np.concatenate(out)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("text")
    p.add_argument("tokenizer")
    p.add_argument("tokens")
    p.add_argument("--vocab", type=int, default=2048)
    args = p.parse_args()
    paths = sorted(glob.glob(os.path.join(args.text, "part-*.txt")))
    tok = train(paths[:TRAIN_PARTS], args.vocab)
    tok.save(args.tokenizer)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        all_ids = np.concatenate(pool.map(encode, [(q, args.tokenizer) for q in paths], chunksize=1))
    np.save(args.tokens, all_ids)
    print("vocabulary:", tok.get_vocab_size(), "tokens:", len(all_ids))


if __name__ == "__main__":
    main()
