#!/usr/bin/env python3
"""Pictures at the door of a server of tests/models/pictures_model.h's model and tower: pictures_client.py files|stall PORT.

files: each file of the fuzz targets' corpora whole, cut off at many lengths and with changed bytes. What is whole and known is
counted as the formula says and answered; nothing else ends the server or gets a status but 200 and 400.
stall: /health is answered while large pictures are decoded.
"""
import base64
import glob
import json
import random
import select
import socket
import struct
import sys
import time
import zlib

what, port = sys.argv[1], int(sys.argv[2])
UNIT = 6  # pixels of a token: patches of 3, merged 2 x 2


def send(path, body):
    s = socket.create_connection(("127.0.0.1", port))
    data = json.dumps(body).encode()
    s.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
    return s


def take(s):
    got = b""
    while True:
        more = s.recv(1 << 16)
        if not more:
            break
        got += more
    s.close()
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def chat(files, **more):
    content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(f).decode()}} for f in files]
    return dict({"messages": [{"role": "user", "content": content + [{"type": "text", "text": "abc"}]}]}, **more)


def ask(path, files, **more):
    return take(send(path, chat(files, **more)))


def expect(true, *what):
    if not true:
        sys.exit("pictures_client: " + " ".join(str(w) for w in what))


def tokens(width, height):
    across, down = -(-width // UNIT), -(-height // UNIT)
    return down * (across + 1)


# As they are seen: turned.* have EXIF's orientation 6. None: refused.
SEEN = {"full.jpg": (19, 13), "half.jpg": (33, 17), "grey.jpg": (9, 10), "progressive.jpg": (35, 18), "cmyk.jpg": (17, 9),
        "one.jpg": (1, 1), "turned.jpg": (5, 7), "rgb.png": (13, 7), "rgba.png": (11, 9), "grey_alpha.png": (8, 6),
        "bits.png": (13, 5), "palette.png": (12, 8), "palette_alpha.png": (12, 8), "one.png": (1, 1), "turned.png": (4, 5),
        "deep.png": (6, 4), "deep_grey.png": (3, 5), "woven.png": (11, 13), "lossy.webp": (35, 19), "lossless.webp": (21, 14),
        "alpha.webp": (23, 18), "lossless_alpha.webp": (9, 8), "one.webp": (1, 1), "animated.webp": (16, 12),
        "turned.webp": (4, 7)}


def files():
    paths = sorted(glob.glob("tests/fuzz/corpus_picture_*/*"))
    known = 0
    draw = random.Random(48)
    counts = {200: 0, 400: 0}
    for path in paths:
        data = open(path, "rb").read()
        name = path.rsplit("/", 1)[1]
        if name in SEEN:
            known += 1
            want = tokens(*SEEN[name])
            status, body = ask("/tokenize", [data])
            expect(status == 200 and body["picture_tokens"] == [want], name, status, body, want)
            expect(body["count"] == len(body["tokens"]) - 1 + want, name, body)
            status, answer = ask("/v1/chat/completions", [data], max_tokens=1, ignore_eos=True)
            expect(status == 200 and answer["usage"]["prompt_tokens"] == body["count"], name, status, answer)
        damaged = [data[:len(data) * k // 8] for k in range(8)]
        for _ in range(8):
            other = bytearray(data)
            for _ in range(draw.choice((1, 4, 40))):
                if other:
                    other[draw.randrange(len(other))] = draw.randrange(256)
            damaged.append(bytes(other))
        for k, one in enumerate(damaged):
            if not one:
                continue
            status, body = ask("/v1/chat/completions", [one], max_tokens=1)
            expect(status in counts, path, k, status, body)
            expect(status == 200 or "picture 0" in body["error"]["message"] or "tokens of text" in body["error"]["message"], path, k, body)
            counts[status] += 1
    expect(known == len(SEEN), "of the files of SEEN there are", known)
    expect(counts[400] > len(paths), counts)
    for name, data in (("gif", b"GIF89a\1\0\1\0\0\0\0;"), ("bmp", b"BM" + bytes(60)), ("tiff", b"II*\0" + bytes(60)),
                       ("svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"), ("avif", b"\0\0\0\x1cftypavif" + bytes(60))):
        status, body = ask("/v1/chat/completions", [data])
        expect(status == 400 and "JPEG, PNG" in body["error"]["message"], name, status, body)
    for width, height in ((65535, 65535), (1 << 31, 1), (0, 5), (100000, 100000)):
        status, body = ask("/v1/chat/completions", [png(width, height, b"")])
        expect(status == 400 and "picture 0" in body["error"]["message"], width, height, status, body)
    one = open("tests/data/pictures/tower.png", "rb").read()
    status, body = ask("/v1/chat/completions", [one] * 10)
    expect(status == 400 and "tokens of text and 180 of 10 pictures, memory.context is 64" in body["error"]["message"], status, body)
    print(counts[200], "damaged files are read,", counts[400], "refused")


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, rows):
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def stall():
    # Small files of 64 million pixels: all of the request lies in the server's socket before /health is asked. A loop that decodes
    # answers one or two such questions before the chat.
    large = [png(32000, height, bytes(4001 * height)) for height in (2000, 1999, 1998)]
    asked = send("/v1/chat/completions", chat(large, max_tokens=1, ignore_eos=True))
    answers = 0
    while not select.select([asked], [], [], 0)[0]:
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            expect(s.recv(100).startswith(b"HTTP/1.1 200"), "/health is not 200")
        if not select.select([asked], [], [], 0)[0]:
            answers += 1
        time.sleep(0.005)
    status, body = take(asked)
    expect(status == 200, status, body)
    expect(answers > 4, "/health was answered", answers, "times while the pictures were decoded")
    print("/health was answered", answers, "times meanwhile")


{"files": files, "stall": stall}[what]()
