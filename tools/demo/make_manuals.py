#!/usr/bin/env python3
"""Writes the text of the model "manuals": documentation that Debian packages ship under free licences, as plain text.

    make_manuals.py DEBS_DIR OUTPUT_DIR HELDOUT.txt [--heldout 160000] [--seed 1] [--jobs N]

DEBS_DIR holds the packages (apt-get download); dpkg and groff must be there. The documents, separated by NUL bytes and in an order
that the seed decides, go to OUTPUT_DIR/part-*.txt; some of the packages in PROSE are kept out and go to HELDOUT.txt.
"""
import argparse
import concurrent.futures
import glob
import gzip
import hashlib
import html.parser
import os
import random
import re
import subprocess
import sys
import tarfile
from collections import Counter

PROSE = ('manpages', 'manpages-dev', 'git-doc', 'perl-doc', 'python3.11-doc', 'linux-doc-6.1', 'postgresql-doc-15', 'debian-policy')
# Of rust-doc the books; the pages of its interfaces repeat themselves.
BOOKS = ('book', 'cargo', 'edition-guide', 'embedded-book', 'nomicon', 'reference', 'rust-by-example', 'rustc', 'rustdoc', 'unstable-book')
SKIPPED = ('translations', 'changelog', 'copyright', 'genindex', 'py-modindex', '/search.', 'NEWS', '/feat/', '/abi-', 'contents.txt')
KINDS = ('.txt', '.rst', '.html', '.pod', '.md')
PARTS = 16


class Text(html.parser.HTMLParser):
    """The text of a page: blocks end lines, what is not for readers is left out."""
    hidden = {'script', 'style', 'nav', 'head', 'footer', 'button', 'select'}
    blocks = {'p', 'div', 'li', 'tr', 'pre', 'h1', 'h2', 'h3', 'h4', 'h5', 'dt', 'dd', 'br', 'table', 'ul', 'ol', 'dl'}

    def __init__(self):
        super().__init__()
        self.out, self.depth, self.pre = [], 0, 0

    def handle_starttag(self, tag, attrs):
        self.depth += tag in self.hidden
        self.pre += tag == 'pre'
        if tag in self.blocks:
            self.out.append('\n')
        elif tag in ('td', 'th'):
            self.out.append(' ')

    def handle_endtag(self, tag):
        self.depth = max(0, self.depth - (tag in self.hidden))
        self.pre = max(0, self.pre - (tag == 'pre'))
        if tag in self.blocks or tag in ('h1', 'h2', 'h3'):
            self.out.append('\n')

    def handle_data(self, data):
        if self.depth == 0:
            self.out.append(data if self.pre else re.sub(r'\s+', ' ', data))


def page(path, raw):
    """The plain text of one file, or '' where it is none of the kinds known."""
    if path.endswith('.gz'):
        path, raw = path[:-3], gzip.decompress(raw)
    if '/man/man' in path:
        if len(raw) < 400 or raw.startswith(b'.so '):
            return ''
        done = subprocess.run(['groff', '-mandoc', '-Tascii', '-P-cbou', '-rLL=100n'], input=raw, capture_output=True, check=False)
        return done.stdout.decode('ascii', 'ignore')
    if not path.endswith(KINDS):
        return ''
    text = raw.decode('utf-8', 'ignore')
    if path.endswith('.html'):
        parser = Text()
        parser.feed(text)
        text = ''.join(parser.out)
    return text


def clean(text):
    text = re.sub(r'[ \t]+\n', '\n', text.replace('\0', '').replace('\r', ''))
    text = re.sub(r'\n{3,}', '\n\n', text).strip()
    strange = sum(c > '\x7f' for c in text)
    return '' if len(text) < 300 or len(text) > 2000000 or strange > len(text) // 20 else text + '\n'


def wanted(package, path, with_sources):
    if any(s in path for s in SKIPPED):
        return False
    if path.endswith('.html') and with_sources:      # the same pages lie there as their sources
        return False
    if package == 'rust-doc':
        return any('/html/%s/' % b in path for b in BOOKS)
    return package != 'erlang-doc' or '/html/' in path


def files(deb):
    """(path, content) of the package's plain files, without a folder on the disk."""
    with subprocess.Popen(['dpkg', '--fsys-tarfile', deb], stdout=subprocess.PIPE) as unpack:
        with tarfile.open(fileobj=unpack.stdout, mode='r|') as tar:
            for member in tar:
                path = member.name
                if member.isfile() and ('/man/man' in path or path.removesuffix('.gz').endswith(KINDS)):
                    yield path, tar.extractfile(member).read()
        if unpack.wait() != 0:
            sys.exit('make_manuals: not a package: %s' % deb)


def read(job):
    package, path, raw = job
    return package, clean(page(path, raw))


def documents(debs, jobs):
    work = []
    for deb in sorted(glob.glob(os.path.join(debs, '*.deb'))):
        package = os.path.basename(deb).split('_')[0]
        found = sorted(files(deb))
        with_sources = any('/_sources/' in path for path, _ in found) or package == 'git-doc'
        work += [(package, path, raw) for path, raw in found if wanted(package, path, with_sources)]
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        found = list(pool.map(read, work, chunksize=16))
    seen, out, sizes = set(), [], Counter()
    lines = {}
    for package, text in found:
        lines.setdefault(package, Counter()).update({'': 1, **dict.fromkeys(text.split('\n'), 1)})
    for package, text in found:
        # What stands on a third of a package's pages is their frame, not their text. (The empty line counts the pages.)
        often = lines[package]
        text = clean('\n'.join(line for line in text.split('\n') if len(line) < 14 or often[line] < 9 + often[''] / 3))
        key = hashlib.sha256(re.sub(r'\W+', '', text).encode()).digest()
        if text and key not in seen:
            seen.add(key)
            out.append((package, text))
            sizes[package] += len(text)
    for package, size in sizes.most_common():
        print('%-24s %8.1f MB %6d documents' % (package, size / 1e6, sum(p == package for p, _ in out)))
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('debs')
    p.add_argument('output')
    p.add_argument('heldout')
    p.add_argument('--heldout', dest='size', type=int, default=160000)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--jobs', type=int, default=os.cpu_count())
    a = p.parse_args()
    docs = documents(a.debs, a.jobs)
    random.Random(a.seed).shuffle(docs)
    held, kept, size = [], [], 0
    for package, text in docs:
        if package in PROSE and size < a.size and 3000 < len(text) < 12000:
            held.append(text)
            size += len(text)
        else:
            kept.append(text)
    with open(a.heldout, 'w', encoding='utf-8') as f:
        f.write('\n\n'.join(held))
    os.makedirs(a.output, exist_ok=True)
    for i in range(PARTS):
        with open(os.path.join(a.output, 'part-%02d.txt' % i), 'w', encoding='utf-8') as f:
            f.write(''.join(t + '\0' for t in kept[i::PARTS]))
    print('%d documents, %.1f MB; kept out: %d, %d bytes' % (len(kept), sum(map(len, kept)) / 1e6, len(held), size))


if __name__ == '__main__':
    main()
