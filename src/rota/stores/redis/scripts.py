"""Lua scripts, each in a file of its own; what several of them need is in files they name."""

import hashlib
import re
from importlib.resources import files
from typing import NamedTuple

_USES = re.compile(r"^-- uses +(\w+)$", re.MULTILINE)


class Script(NamedTuple):
    """A script, and the name by which the server remembers it."""

    name: str
    text: str
    digest: str


def load_script(package: str, name: str) -> Script:
    """The script in the file of that name; what it uses stands where it says so, and once."""
    whole = _assemble(package, name, {name})
    return Script(name, whole, hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest())


def _assemble(package: str, name: str, seen: set[str]) -> str:
    def put_in(line: re.Match[str]) -> str:
        used = line[1]
        if used in seen:
            return line[0]
        seen.add(used)
        return f"{line[0]}\n{_assemble(package, used, seen)}"

    return _USES.sub(put_in, _read(package, name))


def _read(package: str, name: str) -> str:
    """The text of a file, from the package or from the one that it is in."""
    found = files(package).joinpath(f"{name}.lua")
    if not found.is_file():
        found = files(package.rpartition(".")[0]).joinpath(f"{name}.lua")
    return found.read_text(encoding="utf-8")
