"""The glossary as the tests read it: the words in use, and those refused for each."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ROW = re.compile(r"^\| (?P<word>[a-z][^|]*?) \| (?P<meaning>[^|]+?) \|(?P<refused>[^|]*)\|$")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True)
class Entry:
    """One word of the glossary, and the words that are not used for its idea."""

    word: str
    refused: tuple[str, ...]


def entries(page: str) -> list[Entry]:
    """The rows of the glossary's tables; their headings are no words."""
    rows = (_ROW.match(line) for line in page.splitlines())
    return [
        Entry(
            row["word"], tuple(part.strip() for part in row["refused"].split(",") if part.strip())
        )
        for row in rows
        if row is not None and row["word"] != "word"
    ]


def spoken(identifier: str) -> str:
    """``nextFire_time`` as the words a reader hears: ``next fire time``."""
    return " ".join(part.lower() for part in _PART.findall(identifier))


def refused_uses(identifiers: Iterable[str], page: str) -> list[str]:
    """Identifiers that use another word than the glossary's, each with the word to use."""
    refused = {phrase: entry.word for entry in entries(page) for phrase in entry.refused}
    heard = {identifier: f" {spoken(identifier)} " for identifier in sorted(identifiers)}
    return [
        f"{identifier}: say {word}, not {phrase}"
        for identifier, words in heard.items()
        for phrase, word in refused.items()
        if f" {phrase} " in words
    ]
