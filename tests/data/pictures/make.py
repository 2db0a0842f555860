#!/usr/bin/env python3
"""Makes the pictures of tests/fuzz/corpus_picture_* and, beside this file, NAME.rgb: what Pillow makes of each
(python3-pil, python3-numpy). Run it in the checkout's root; the results are committed, and no test needs Pillow."""
import struct
import zlib

import numpy
from PIL import Image, ImageOps

OUT = "tests/data/pictures/"
CORPUS = {"jpg": "tests/fuzz/corpus_picture_jpeg/", "png": "tests/fuzz/corpus_picture_png/",
          "webp": "tests/fuzz/corpus_picture_webp/"}
random = numpy.random.RandomState(20261127)


def scene(width, height, channels=3):
    """Waves and an edge: smooth enough for JPEG, different in each channel."""
    y, x = numpy.mgrid[0:height, 0:width]
    rows = [127 + 90 * numpy.sin(x / (3 + c) + c) * numpy.cos(y / (4 - c / 2)) + 30 * (x > width // 2)
            for c in range(channels)]
    return numpy.clip(numpy.stack(rows, 2) + random.randint(-8, 9, (height, width, channels)), 0, 255).astype("uint8")


def on_white(picture):
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        white = Image.new("RGB", picture.size, (255, 255, 255))
        white.paste(picture, mask=picture.getchannel("A"))
        return white
    return picture.convert("RGB")


def reference(name, pixels):
    with open(OUT + name + ".rgb", "wb") as f:
        f.write(pixels)


def keep(name, picture, **options):
    ending = name.rsplit(".", 1)[1]
    picture.save(CORPUS[ending] + name, **options)
    again = Image.open(CORPUS[ending] + name)
    reference(name, on_white(again).tobytes())


def exif(orientation):
    e = Image.Exif()
    e[0x0112] = orientation
    return e.tobytes()


def all_turns(name, picture, **options):
    """The file has orientation 6; the reference is that of 1 to 8, one behind the other."""
    path = CORPUS[name.rsplit(".", 1)[1]] + name
    pixels = b""
    for o in range(1, 9):
        picture.save(path, exif=exif(o), **options)
        pixels += ImageOps.exif_transpose(Image.open(path)).convert("RGB").tobytes()
    picture.save(path, exif=exif(6), **options)
    reference(name, pixels)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(name, width, height, depth, colour, rows, interlaced=0, more=b""):
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
    with open(CORPUS["png"] + name, "wb") as f:
        f.write(data + more + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def adam7(pixels):
    rows = b""
    for x, y, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        part = pixels[y::dy, x::dx]
        if part.size:
            rows += b"".join(b"\0" + row.tobytes() for row in part)
    return rows


def jpegs():
    keep("full.jpg", Image.fromarray(scene(19, 13)), quality=90, subsampling=0)
    keep("half.jpg", Image.fromarray(scene(33, 17)), quality=80, subsampling=2)
    keep("grey.jpg", Image.fromarray(scene(9, 10)[:, :, 0]), quality=85)
    keep("progressive.jpg", Image.fromarray(scene(35, 18)), quality=85, progressive=True)
    keep("cmyk.jpg", Image.fromarray(scene(17, 9, 4), "CMYK"), quality=90)
    keep("one.jpg", Image.fromarray(scene(1, 1)), quality=90)
    all_turns("turned.jpg", Image.fromarray(scene(7, 5)), quality=95, subsampling=0)


def pngs():
    keep("rgb.png", Image.fromarray(scene(13, 7)), optimize=True)
    keep("rgba.png", Image.fromarray(scene(11, 9, 4)))
    keep("grey_alpha.png", Image.fromarray(scene(8, 6, 2), "LA"))
    keep("bits.png", Image.fromarray(scene(13, 5)).convert("1"))
    palette = Image.fromarray(scene(12, 8)).quantize(16)
    keep("palette.png", palette)
    keep("palette_alpha.png", palette, transparency=bytes(range(0, 256, 17)))
    keep("one.png", Image.fromarray(scene(1, 1)))
    all_turns("turned.png", Image.fromarray(scene(5, 4)))
    deep = random.randint(0, 65536, (4, 6, 3)).astype(">u2")
    png("deep.png", 6, 4, 16, 2, b"".join(b"\0" + row.tobytes() for row in deep))
    reference("deep.png", Image.open(CORPUS["png"] + "deep.png").convert("RGB").tobytes())
    grey = random.randint(0, 65536, (5, 3, 1)).astype(">u2")  # Pillow clips these; the upper bytes are the reference
    png("deep_grey.png", 3, 5, 16, 0, b"".join(b"\0" + row.tobytes() for row in grey))
    reference("deep_grey.png", numpy.repeat((grey.astype("uint16") >> 8).astype("uint8"), 3, 2).tobytes())
    woven = scene(11, 13, 4)
    # Compressed text of a million bytes, which is not to be unpacked.
    text = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(1000000), 9))
    png("woven.png", 11, 13, 8, 6, adam7(woven), 1, text)
    reference("woven.png", on_white(Image.fromarray(woven)).tobytes())


def webps():
    keep("lossy.webp", Image.fromarray(scene(35, 19)), quality=70)
    keep("lossless.webp", Image.fromarray(scene(21, 14)), lossless=True)
    keep("alpha.webp", Image.fromarray(scene(23, 18, 4)), quality=80)
    keep("lossless_alpha.webp", Image.fromarray(scene(9, 8, 4)), lossless=True, exact=True)
    keep("one.webp", Image.fromarray(scene(1, 1)), lossless=True)
    keep("animated.webp", Image.fromarray(scene(16, 12)), save_all=True, append_images=[Image.fromarray(scene(16, 12))],
         duration=100, lossless=True)
    all_turns("turned.webp", Image.fromarray(scene(7, 4)), lossless=True)


def sizes():
    picture = Image.fromarray(scene(37, 29))
    reference("resize_from", picture.tobytes())
    for width, height in ((11, 50), (64, 9), (37, 10), (50, 29), (1, 1), (38, 30)):
        for name, f in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
            reference(f"resize_{name}_{width}x{height}", picture.resize((width, height), f).tobytes())


jpegs()
pngs()
webps()
sizes()
