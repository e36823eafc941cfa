"""Pictures with few colours take little room: PNG files with a palette, by the standard library."""

import struct
import zlib
from collections import Counter

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MOST_COLOURS = 256
_COARSE = 0xF8

Pixel = tuple[int, int, int]


def shrink(png: bytes) -> bytes:
    """The picture with a palette of at most 256 colours: those that are used most.

    Every other colour is drawn in the nearest of them; in text this cannot be seen.
    """
    width, height, rows = _read(png)
    counts: Counter[Pixel] = Counter()
    for row in rows:
        counts.update(row)
    palette = [colour for colour, _ in counts.most_common(_MOST_COLOURS)]
    places = {colour: index for index, colour in enumerate(palette)}
    nearest: dict[Pixel, int] = {}
    body = bytearray()
    for row in rows:
        body.append(0)
        for pixel in row:
            place = places.get(pixel)
            body.append(_find_nearest(pixel, palette, nearest) if place is None else place)
    flat = b"".join(bytes(colour) for colour in palette)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    packed = zlib.compress(bytes(body), 9)
    chunks = ((b"IHDR", header), (b"PLTE", flat), (b"IDAT", packed), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks)


def _find_nearest(pixel: Pixel, palette: list[Pixel], known: dict[Pixel, int]) -> int:
    rough = pixel[0] & _COARSE | 4, pixel[1] & _COARSE | 4, pixel[2] & _COARSE | 4
    if rough not in known:
        known[rough] = min(
            range(len(palette)),
            key=lambda index: sum((a - b) ** 2 for a, b in zip(palette[index], rough, strict=True)),
        )
    return known[rough]


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


def _read(png: bytes) -> tuple[int, int, list[list[Pixel]]]:
    """The size and the rows of a picture as Chromium writes it: RGB or RGBA, eight bits each."""
    width, height, depth, colours = struct.unpack(">IIBB", png[16:26])
    assert depth == 8
    size = {2: 3, 6: 4}[colours]
    packed, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            packed += png[at + 8 : at + 8 + length]
        at += length + 12
    flat, stride = zlib.decompress(packed), width * size
    rows, before = [], bytearray(stride)
    for row in range(height):
        start = row * (stride + 1)
        line = bytearray(flat[start + 1 : start + 1 + stride])
        _unfilter(flat[start], line, before, size)
        channels = line[0::size], line[1::size], line[2::size]
        rows.append(list(zip(*channels, strict=True)))
        before = line
    return width, height, rows


def _unfilter(kind: int, line: bytearray, above: bytearray, size: int) -> None:
    """Undo what a PNG does to a row so that it compresses better."""
    for at in range(len(line)):
        left = line[at - size] if at >= size else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = above[at]
        elif kind == 3:
            guess = (left + above[at]) // 2
        elif kind == 4:
            guess = _paeth(left, above[at], above[at - size] if at >= size else 0)
        else:
            return
        line[at] = (line[at] + guess) & 0xFF


def _paeth(left: int, up: int, corner: int) -> int:
    estimate = left + up - corner
    distances = abs(estimate - left), abs(estimate - up), abs(estimate - corner)
    nearest = min(distances)
    if nearest == distances[0]:
        return left
    return up if nearest == distances[1] else corner
