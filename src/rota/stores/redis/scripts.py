"""Lua scripts, one per file. A line ``-- uses name`` stands for the content of another file."""

import hashlib
import re
from typing import NamedTuple

from rota.stores.statements import folder_of

_USES = re.compile(r"^-- uses +(\w+)$", re.MULTILINE)
_READING = frozenset({"find", "next_due", "range", "read", "survey", "waiting"})
_REPEATABLE = _READING | {"extend"}


class Script(NamedTuple):
    """A script, and the digest by which the server remembers it."""

    name: str
    text: str
    digest: str
    is_writing: bool
    is_repeatable: bool
    """Whether it is run again if its answer is lost; otherwise its outcome is unknown."""


def load_script(name: str) -> Script:
    """The script in the file of that name; what it uses is included where it says so, once."""
    text = _assemble(name, {name})
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(name, text, digest, name not in _READING, name in _REPEATABLE)


def _assemble(name: str, seen: set[str]) -> str:
    def include(line: re.Match[str]) -> str:
        used = line[1]
        if used in seen:
            return line[0]
        seen.add(used)
        return f"{line[0]}\n{_assemble(used, seen)}"

    text = (folder_of(__package__) / f"{name}.lua").read_text(encoding="utf-8")
    return _USES.sub(include, text)
