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
    """The script in the file of that name, behind those that its header says it uses."""
    text = _read(package, name)
    parts = [_read(package, used) for used in _USES.findall(text)]
    whole = "\n".join([*parts, text])
    return Script(name, whole, hashlib.sha1(whole.encode(), usedforsecurity=False).hexdigest())


def _read(package: str, name: str) -> str:
    """The text of a file, from the package or from the one that it is in."""
    found = files(package).joinpath(f"{name}.lua")
    if not found.is_file():
        found = files(package.rpartition(".")[0]).joinpath(f"{name}.lua")
    return found.read_text(encoding="utf-8")
