"""A text that must not be seen by accident."""

from hmac import compare_digest
from typing import NoReturn


class Secret:
    """Holds a secret text; shows it only to who asks with ``reveal()``.

    It prints as ``Secret(***)`` wherever it lands: in a log line, a traceback, a format string.
    Nothing turns it into bytes for storing; comparing two takes the same time wherever they differ.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself. Show it once to its owner, and pass it on to nobody else."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __format__(self, _: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return compare_digest(_bytes_of(self._text), _bytes_of(other._text))

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere as it is")


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
