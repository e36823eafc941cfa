"""Texts of several lines that came from outside: payloads and errors."""

from collections.abc import Collection

import msgspec

from rota.auth.masking import mask_secrets, mask_text
from rota.escape import escape, escape_json

LONGEST_SHOWN = 20_000


class Lines(str):
    """Text whose lines have been made safe to read one by one; its line breaks are its own."""

    __slots__ = ()


def show_json(value: object) -> Lines:
    """Indented JSON that says what the value says, cut where it gets too long to be read."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return Lines(_cut("\n".join(escape_json(line) for line in text.split("\n"))))


def show_payload(payload: object, masked_words: Collection[str]) -> tuple[Lines, bool]:
    """The payload for people who operate, and whether something in it was masked."""
    masked = mask_secrets(payload, masked_words)
    return show_json(masked), masked != payload


def show_text(text: str) -> Lines:
    """The text, with everything but its line breaks and tabs written out where it is invisible."""
    lines = mask_text(text).replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return Lines(_cut("\n".join(escape(line) for line in lines)))


def _cut(text: str) -> str:
    if len(text) <= LONGEST_SHOWN:
        return text
    return f"{text[:LONGEST_SHOWN]}\n[… {len(text) - LONGEST_SHOWN} characters more]"
