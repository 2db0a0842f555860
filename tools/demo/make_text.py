"""Writes stories. Each document ends with a NUL byte.

    make_text.py --seed 7 --stories 400000 --jobs 16 --output DIR [--avoid held-out.txt]
    make_text.py --seed 8 --heldout 12000 --output held-out.txt
"""
import argparse
import hashlib
import multiprocessing
import os
import random

import story_plots_a as a
import story_plots_b as b
import story_plots_c as c
from story_grammar import Story

PLOTS = [a.lost_thing, a.lost_thing, a.sharing, a.sharing, a.rescue, a.rescue, a.honesty, a.new_friend, a.new_friend, a.quarrel, a.sick_friend,
         b.fear, b.fear, b.skill, b.skill, b.race, b.warning, b.build, b.seed, b.winter,
         c.lost_way, c.cake, c.lost_baby, c.noise, c.magic, c.moon, c.gift, c.heavy, c.talent]
BREAK = "\n\n* * *\n\n"     # between the stories of a collection


def one(rng):
    story = Story(rng)
    story.pick(PLOTS)(story)
    return story.text()


def mark(text):
    return hashlib.sha256(text.encode()).digest()


def part(job):
    seed, count, path, avoid = job
    rng = random.Random(seed)
    with open(path, "w") as f:
        done = 0
        while done < count:
            # a few documents are collections, so that a held-out file of many stories is nothing strange
            stories = [one(rng) for _ in range(3 if rng.random() < .015 else 1)]
            stories = [t for t in stories if mark(t) not in avoid]
            if stories:
                f.write(BREAK.join(stories) + "\0")
                done += len(stories)
    return done


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, required=True)
    p.add_argument("--stories", type=int, default=10)
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--output", required=True)
    p.add_argument("--avoid", help="a held-out file whose stories must not appear")
    p.add_argument("--heldout", type=int, help="write one file of about this many bytes instead")
    args = p.parse_args()
    if args.heldout:
        rng = random.Random("held out %d" % args.seed)
        stories = []
        while sum(map(len, stories)) < args.heldout:
            stories.append(one(rng))
        with open(args.output, "w") as f:
            f.write(BREAK.join(stories))
        return
    avoid = set()
    if args.avoid:
        with open(args.avoid) as f:
            avoid = {mark(t) for t in f.read().split(BREAK)}
    os.makedirs(args.output, exist_ok=True)
    parts = args.jobs * 4
    jobs = [("%d/%d" % (args.seed, i), args.stories // parts, os.path.join(args.output, "part-%03d.txt" % i), avoid) for i in range(parts)]
    with multiprocessing.Pool(args.jobs) as pool:
        print("stories:", sum(pool.imap_unordered(part, jobs)))


if __name__ == "__main__":
    main()
