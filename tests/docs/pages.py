"""Markdown pages, and the blocks of code in them.

A block is what stands between two fences. A ``text`` block right after ``<!-- output -->`` is what
the block before it prints. A block with ``title="name"`` is also written to a file of that name, so
that later blocks of the page can use it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OUTPUT_MARK = "<!-- output -->"
_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<about>[^`]*)$")
_TITLE = re.compile(r'title="(?P<title>[^"]+)"')


@dataclass(frozen=True)
class Block:
    """One fenced block; ``line`` is that of its first line of text, counted from 1."""

    language: str
    text: str
    line: int
    title: str | None = None
    is_output: bool = False


def blocks_of(text: str) -> list[Block]:
    """Every fenced block of a page, in order."""
    return list(_blocks(text.splitlines()))


def read_blocks(path: Path) -> list[Block]:
    return blocks_of(path.read_text(encoding="utf-8"))


def _blocks(lines: list[str]) -> Iterator[Block]:
    number = 0
    said_before = ""
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        if opening is None:
            said_before = lines[number].strip() or said_before
            number += 1
            continue
        end = _end_of_block(lines, number, opening["fence"])
        yield _block(opening, lines[number + 1 : end], number + 2, said_before)
        said_before = ""
        number = end + 1


def _end_of_block(lines: list[str], start: int, fence: str) -> int:
    for number in range(start + 1, len(lines)):
        if lines[number].strip() == fence:
            return number
    raise ValueError(f"the block that begins in line {start + 1} has no end")


def _block(opening: re.Match[str], lines: list[str], line: int, said_before: str) -> Block:
    about = opening["about"].strip()
    title = _TITLE.search(about)
    return Block(
        language=about.split()[0] if about else "",
        text="".join(f"{text.removeprefix(opening['indent'])}\n" for text in lines),
        line=line,
        title=title["title"] if title else None,
        is_output=said_before == OUTPUT_MARK,
    )
