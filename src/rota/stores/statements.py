"""Named SQL statements, in a file beside the code that runs them.

A statement begins with a line ``-- name: the_name`` and ends before the next one; further comment
lines say what it does, what its parameters are, and why anything odd is as it is. A line
``-- include: the_other`` stands for the text of a statement above it. With ``(worker = $6)`` after
it, ``$6`` takes the place of ``:worker`` there; the code that runs a statement replaces the rest.
"""

import re
from importlib import import_module
from pathlib import Path

_HEADING = re.compile(r"^-- name: (\w+)[ \t]*$", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*-- (?:include|begins as): (\w+)(?: \((.+)\))?[ \t]*$")
_VALUE = re.compile(r"(\w+) = ([^,]+)")
_PLACE = re.compile(r"(?<!:):(\w+)")


class Statements:
    """The statements of a file as attributes."""

    def __init__(self, package: str, file_name: str = "queries.sql") -> None:
        self.__dict__.update(load_statements(package, file_name))

    def __getattr__(self, name: str) -> str:
        raise AttributeError(f"no statement is named {name}")


def load_statements(package: str, file_name: str) -> dict[str, str]:
    """The statements of a file by name, without their comments."""
    return parse_statements((folder_of(package) / file_name).read_text(encoding="utf-8"))


def folder_of(package: str) -> Path:
    """The folder of a package; ``importlib.resources`` also reads archives, and is slow to load."""
    return Path(import_module(package).__path__[0])


def parse_statements(text: str) -> dict[str, str]:
    """The statements in ``text`` by name; ValueError if one has no name or shares its name."""
    preamble, *parts = _HEADING.split(text)
    names = parts[::2]
    if _read_lines(preamble, {}) or not names:
        raise ValueError("every statement needs a line '-- name: ...' before it")
    if len(set(names)) < len(names):
        raise ValueError(f"a statement is named twice: {', '.join(sorted(names))}")
    statements: dict[str, str] = {}
    for name, part in zip(names, parts[1::2], strict=True):
        statements[name] = _read_lines(part, statements)
    return statements


def _read_lines(text: str, earlier: dict[str, str]) -> str:
    """The text without comments, with the included statements in place."""
    lines: list[str] = []
    for line in text.splitlines():
        included = _INCLUDE.match(line)
        if included is not None:
            lines.append(_fill(_find(included[1], earlier), included[2] or ""))
        elif not line.lstrip().startswith("--"):
            lines.append(line)
    return "\n".join(lines).strip()


def _find(name: str, earlier: dict[str, str]) -> str:
    if name not in earlier:
        raise ValueError(f"no statement above is named {name}")
    return earlier[name].removesuffix(";")


def _fill(text: str, values: str) -> str:
    given = dict(_VALUE.findall(values))
    return _PLACE.sub(lambda place: given.get(place[1], place[0]), text)
