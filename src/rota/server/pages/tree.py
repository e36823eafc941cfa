"""JSON values as a tree that folds."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from rota.escape import escape_json
from rota.server.pages.formats import Lines

MOST_BRANCHES = 400
"""The parts of a larger value are left out from here on."""

LONGEST_LEAF = 400

_MOST_OPEN = 40


class Branch(NamedTuple):
    """A value with its name: a leaf with its ``text``, or an object or list with its ``parts``.

    ``path`` is unique in the tree. ``left_out`` counts the parts that are not shown.
    """

    path: str
    name: str
    text: Lines
    look: str
    parts: "tuple[Branch, ...]" = ()
    left_out: int = 0
    is_open: bool = False


def grow_tree(value: Any, root: str) -> Branch:
    """The tree of a value. A small one is open at once."""
    return _Grower(is_small=_count(value, _MOST_OPEN + 1) <= _MOST_OPEN).grow(root, "", value)


class _Grower:
    def __init__(self, *, is_small: bool) -> None:
        self._is_small = is_small
        self._room = MOST_BRANCHES

    def grow(self, path: str, name: str, value: Any, depth: int = 0) -> Branch:
        if not isinstance(value, dict | list) or not value:
            return Branch(path, name, _write(value), _look_of(value))
        named: Iterable[tuple[Any, Any]] = (
            value.items() if isinstance(value, dict) else enumerate(value)
        )
        is_open = self._is_small or depth == 0
        parts: list[Branch] = []
        for key, each in named:
            if self._room <= 0:
                break
            self._room -= 1
            parts.append(self.grow(f"{path}.{len(parts)}", str(key), each, depth + 1))
        shape = "{%d}" if isinstance(value, dict) else "[%d]"
        left_out = len(value) - len(parts)
        text = Lines(shape % len(value))
        return Branch(path, name, text, "group", tuple(parts), left_out, is_open)


def _count(value: Any, most: int) -> int:
    """The number of parts at any depth, counted up to ``most``."""
    count, left = 0, [value]
    while left and count < most:
        each = left.pop()
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        count += len(inner)
        left.extend(inner)
    return count


def _write(value: Any) -> Lines:
    text = escape_json(msgspec.json.encode(value).decode())
    if len(text) <= LONGEST_LEAF:
        return Lines(text)
    return Lines(f"{text[:LONGEST_LEAF]}… ({len(text):,} characters)")


def _look_of(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else "word"
