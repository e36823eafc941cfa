"""The terms of a job: what it can be found by.

A term is a letter for its field and a value. The terms of a job follow from its record alone, so
the index and a walk over all jobs give the same answer.
"""

import re
from collections.abc import Container, Iterable, Iterator
from typing import Any
from zlib import crc32

import msgspec

from rota.jobs import Job

ID, WORD, KIND, QUEUE, KEY, CODE, ERROR, PATH, PAYLOAD, STATUS = ALL_LETTERS = "iwkqycePps"

OPEN = f"{STATUS}open"
"""The term of a job that has not ended. In the index: that had not when it was indexed."""

MOST_WORDS = 32
"""How many words of a name, a kind or an error are terms."""

MOST_VALUES = 64
"""How many values of a payload are terms."""

LONGEST_ID = 13
"""How many hexadecimal digits of an id are a term: its milliseconds and its version."""

LONGEST_VALUE = 48
"""The number of characters of a value that are kept as they are. A digest stands for the rest."""

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CODE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,79}(?=:|$)")


def list_terms(job: Job, letters: Container[str] = ALL_LETTERS) -> set[str]:
    """Every term of a job, or at least those of some fields."""
    status = STATUS + job.status.lower() if job.status.is_terminal else OPEN
    found = {ID + fold_id(job.id), KIND + job.kind, QUEUE + job.queue, status}
    if WORD in letters:
        found.update(WORD + word for word in _list_words(f"{job.name} {job.kind}"))
    if job.idempotency_key is not None:
        found.add(KEY + shorten(job.idempotency_key))
    if job.last_error and (ERROR in letters or CODE in letters):
        found |= _list_error_terms(job.last_error)
    if PAYLOAD in letters or PATH in letters:
        for path, value in _walk_payload(job.payload):
            found.add(PATH + shorten(path))
            found.add(PAYLOAD + name_value(path, value))
    return found


def split_words(text: str) -> list[str]:
    """The words of a text in lower case, each once."""
    words = dict.fromkeys(word.casefold()[:LONGEST_VALUE] for word in _WORD.findall(text))
    return list(words)[:MOST_WORDS]


def _list_words(text: str) -> list[str]:
    """The words of a text. A hump, as in ``sendMail``, begins a word too."""
    return split_words(f"{text} {_HUMP.sub(' ', text)}")


def name_value(path: str, value: Any) -> str:
    """A value of a payload behind its path, both in lower case: ``order.id=7``."""
    return shorten(f"{path}={show_value(value)}".casefold())


def show_value(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def fold_id(text: str) -> str:
    """The first digits of an id, without hyphens and in lower case."""
    return text.replace("-", "").lower()[:LONGEST_ID]


def shorten(text: str) -> str:
    """A text of limited length that two texts rarely share, and that every store can keep."""
    text = text if text.isascii() else text.encode("utf-8", "replace").decode()
    if len(text) <= LONGEST_VALUE:
        return text
    return f"{text[:LONGEST_VALUE]}#{crc32(text.encode()):08x}"


def _list_error_terms(error: str) -> set[str]:
    """The words of its first and last line, and the name that each begins with."""
    lines = [line for line in error.splitlines() if line.strip()]
    telling = list(dict.fromkeys([*lines[-1:], *lines[:1]]))
    found = {ERROR + word for word in _list_words(" ".join(telling))}
    codes = (_CODE.match(line.strip()) for line in telling)
    return found | {CODE + code[0] for code in codes if code is not None}


def _walk_payload(payload: Any) -> Iterator[tuple[str, Any]]:
    """The first values in a payload with their paths. The items of a list share its path."""
    left: list[tuple[str, Any]] = [("", payload)]
    count = 0
    while left and count < MOST_VALUES:
        path, value = left.pop()
        if isinstance(value, dict):
            left.extend(reversed([(_join(path, key), value[key]) for key in value]))
        elif isinstance(value, list):
            left.extend((path, each) for each in reversed(value))
        elif path:
            count += 1
            yield path, value


def _join(path: str, key: object) -> str:
    name = str(key).casefold()
    return f"{path}.{name}" if path else name


class TermRange(msgspec.Struct, frozen=True):
    """A term or, with ``is_prefix``, all terms that begin with it."""

    text: str
    is_prefix: bool = False

    def accepts(self, terms: Iterable[str]) -> bool:
        if self.is_prefix:
            return any(term.startswith(self.text) for term in terms)
        return self.text in terms


class Clause(msgspec.Struct, frozen=True):
    """A job matches when one of its terms is in one of these ranges."""

    ranges: tuple[TermRange, ...]

    def accepts(self, terms: set[str]) -> bool:
        return any(each.accepts(terms) for each in self.ranges)

    @property
    def is_of_errors(self) -> bool:
        """Whether it asks for an error, which a job may get long after its creation."""
        return any(each.text[:1] in (CODE, ERROR) for each in self.ranges)
