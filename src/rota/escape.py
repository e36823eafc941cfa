"""Escapes text from outside for terminals and for one line of a log."""

import re

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # control characters: they move the cursor, ring, or end the line
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi controls: they reorder what follows
    "\u2028\u2029"  # line and paragraph separators
    "\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # invisible characters
    "\ud800-\udfff"  # lone surrogates: they cannot be encoded, so printing them would fail
    "\U000e0000-\U000e007f"  # tags: an invisible alphabet
    "]"
)


def escape(text: str) -> str:
    r"""``text`` with every control, bidi, invisible and line-separating character escaped.

    They become ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``; everything else, also a backslash, stays as
    it is. The result is one line for reading, not for parsing.
    """
    return _UNSAFE.sub(_written_out, text)


def escape_json(text: str) -> str:
    r"""JSON text with the same characters as ``\uNNNN``; it still parses to the same value.

    Only strings can contain them, if the text has no line breaks of its own.
    """
    return _UNSAFE.sub(_written_in_json, text)


def _written_in_json(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _written_out(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
