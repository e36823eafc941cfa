"""What every event is."""

import json
from typing import Any, ClassVar

import msgspec

from rota.escaping import escape

DEBUG, INFO, WARNING = 10, 20, 30


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One thing that happened."""

    level: ClassVar[int] = DEBUG

    @property
    def name(self) -> str:
        return type(self).__name__

    def fields(self) -> dict[str, Any]:
        """The contract's fields as plain values; instants are ISO 8601 text."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def describe(self) -> str:
        """One line for people, with nothing in it that a terminal could act upon."""
        parts = [f"{key}={_on_one_line(value)}" for key, value in self.fields().items()]
        return " ".join((self.name, *parts))


def _on_one_line(value: object) -> str:
    return escape(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
