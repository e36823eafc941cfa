"""JSON as people hand it to a command: written out, in a file, or on standard input."""

import sys
from pathlib import Path
from typing import Any

import msgspec

from rota.errors import InvalidInputError

LONGEST_FILE = 4 << 20


def read_json(text: str, option: str) -> Any:
    """The value that ``text`` is, or with ``@FILE`` that the file holds; ``-`` is standard input.

    Refused in the name of ``option`` when it is no JSON, with the place where that shows.
    """
    source = _read_source(text, option)
    try:
        return msgspec.json.decode(source)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refuse(option, f"is no JSON: {error}") from error


def _read_source(text: str, option: str) -> bytes:
    try:
        if text == "-":
            return sys.stdin.buffer.read(LONGEST_FILE)
        if text.startswith("@"):
            with Path(text[1:]).open("rb") as file:
                return file.read(LONGEST_FILE)
    except OSError as error:
        raise _refuse(option, f"cannot be read: {error.strerror}") from error
    return text.encode("utf-8", "surrogateescape")


def _refuse(option: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{option} {reason}", {"field": option, "reason": reason})
