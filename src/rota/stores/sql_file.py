"""Named SQL statements, kept in a file beside the code that runs them.

Each begins with a line ``-- name: the_name`` and lasts until the next one; further comment lines
say what it does, what its parameters are, and why anything odd is the way it is.
"""

import re
from importlib.resources import files

_HEADING = re.compile(r"^-- name: (\w+)[ \t]*$", re.MULTILINE)


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
    return dict(zip(names, map(_without_comments, parts[1::2]), strict=True))


def _without_comments(text: str) -> str:
    kept = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(kept).strip()
