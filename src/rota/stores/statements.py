"""Named SQL statements, kept in a file beside the code that runs them.

Each begins with a line ``-- name: the_name`` and lasts until the next one; further comment lines
say what it does, what its parameters are, and why anything odd is the way it is. A line
``-- begins as: the_other`` puts the text of a statement before it in front of this one's.
"""

import re
from collections.abc import Mapping
from importlib.resources import files

_HEADING = re.compile(r"^-- name: (\w+)[ \t]*$", re.MULTILINE)
_BEGINNING = re.compile(r"^-- begins as: (\w+)[ \t]*$", re.MULTILINE)


def load_statements(package: str, file_name: str) -> dict[str, str]:
    """The statements of a file by name, without their comments."""
    return parse_statements(files(package).joinpath(file_name).read_text(encoding="utf-8"))


def parse_statements(text: str) -> dict[str, str]:
    """The statements in ``text`` by name; ValueError when it names none, or one twice."""
    preamble, *parts = _HEADING.split(text)
    names = parts[::2]
    if _without_comments(preamble) or not names:
        raise ValueError("every statement needs a line '-- name: ...' before it")
    if len(set(names)) < len(names):
        raise ValueError(f"a statement is named twice: {', '.join(sorted(names))}")
    statements: dict[str, str] = {}
    for name, part in zip(names, parts[1::2], strict=True):
        statements[name] = _with_beginning(part, statements)
    return statements


def _with_beginning(text: str, earlier: Mapping[str, str]) -> str:
    named = _BEGINNING.search(text)
    if named is None:
        return _without_comments(text)
    if named[1] not in earlier:
        raise ValueError(f"no statement above is named {named[1]}")
    return f"{earlier[named[1]].removesuffix(';')}\n{_without_comments(text)}"


def _without_comments(text: str) -> str:
    kept = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(kept).strip()
