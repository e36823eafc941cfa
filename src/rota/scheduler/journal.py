"""Tells what happened: to the log, as structured records, and to anyone who subscribed."""

import json
import logging
from collections.abc import Callable
from typing import TypeAlias

from rota.escaping import escape
from rota.events import Event

Listener: TypeAlias = Callable[[Event], object]

logger = logging.getLogger("rota.scheduler")


class Journal:
    """The events of one scheduler, in the order in which they happened.

    A log record carries the name of the event as ``record.event`` and its fields as
    ``record.fields``; its message is one line in which everything that users supplied is escaped.
    """

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have ``listener(event)`` called for every event; the returned function ends that."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def wants(self, kind: type[Event]) -> bool:
        """Whether anyone would notice; lets a million tasks pass without a million records."""
        return bool(self._listeners) or logger.isEnabledFor(kind.level)

    def tell(self, event: Event) -> None:
        if logger.isEnabledFor(event.level):
            fields = event.fields()
            logger.log(
                event.level,
                "%s",
                describe(event.name, fields),
                extra={"event": event.name, "fields": fields},
            )
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                logger.exception("A subscriber failed on %s", event.name)


def describe(name: str, fields: dict[str, object]) -> str:
    """One line for people: the event and its fields, with nothing a terminal could act upon."""
    parts = [name]
    parts.extend(f"{key}={_one_line(value)}" for key, value in fields.items())
    return " ".join(parts)


def _one_line(value: object) -> str:
    return escape(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
