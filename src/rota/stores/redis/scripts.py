"""Lua scripts, one per file. A line ``-- uses name`` stands for the content of another file."""

import hashlib
import re
from importlib.resources import files
from typing import NamedTuple

_USES = re.compile(r"^-- uses +(\w+)$", re.MULTILINE)


class Script(NamedTuple):
    """A script, and the digest by which the server remembers it."""

    name: str
    text: str
    digest: str


def load_script(name: str) -> Script:
    """The script in the file of that name; what it uses is included where it says so, once."""
    return make_script(name, _assemble(name, {name}))


def make_script(name: str, text: str) -> Script:
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _assemble(name: str, seen: set[str]) -> str:
    def include(line: re.Match[str]) -> str:
        used = line[1]
        if used in seen:
            return line[0]
        seen.add(used)
        return f"{line[0]}\n{_assemble(used, seen)}"

    text = files(__package__).joinpath(f"{name}.lua").read_text(encoding="utf-8")
    return _USES.sub(include, text)
