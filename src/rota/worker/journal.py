"""Tells what happened: to the log, as structured records, and to anyone who subscribed."""

import logging
from collections.abc import Callable
from typing import TypeAlias

from rota.events import Event

Listener: TypeAlias = Callable[[Event], object]

logger = logging.getLogger("rota.worker")


class Journal:
    """The events of one worker.

    A log record carries the name of the event as ``record.event`` and its fields as
    ``record.fields``; its message is one line in which everything that users supplied is escaped.
    Nothing is made of an event that nobody would notice.
    """

    def __init__(self) -> None:
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
        """Whether anyone would notice an event of this kind."""
        return bool(self._listeners) or logger.isEnabledFor(kind.level)

    def tell(self, event: Event) -> None:
        if logger.isEnabledFor(event.level):
            fields = event.fields()
            logger.log(
                event.level,
                "%s",
                event.describe(),
                extra={"event": event.name, "fields": fields},
            )
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                logger.exception("A subscriber failed on %s", event.name)
