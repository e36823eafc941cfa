"""Tells what happened: to the log, as structured records, and to anyone who subscribed."""

import logging
from collections.abc import Callable
from typing import TypeAlias

from rota.events import Event

Listener: TypeAlias = Callable[[Event], object]


class Journal:
    """The events of one engine, in the order in which they happened.

    A log record carries the name of the event as ``record.event`` and its fields as
    ``record.fields``; its message is one line in which everything that users supplied is escaped.
    Nothing is made of an event that nobody would notice.
    """

    def __init__(self, logger_name: str) -> None:
        self._logger = logging.getLogger(logger_name)
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have ``listener(event)`` called for every event; the returned function ends that.

        It is called in the event loop's thread, except that one which tells of a blocked loop
        comes from another.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def wants(self, kind: type[Event]) -> bool:
        """Whether anyone would notice; lets a million tasks pass without a million records."""
        return bool(self._listeners) or self._logger.isEnabledFor(kind.level)

    def tell(self, event: Event) -> None:
        """Log the event, and call every listener; one that fails is logged and keeps none away."""
        if self._logger.isEnabledFor(event.level):
            self._logger.log(
                event.level,
                "%s",
                event.describe(),
                extra={"event": event.name, "fields": event.fields()},
            )
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                self._logger.exception("A subscriber failed on %s", event.name)
