"""What a store says to its server, command by command, as the driver sends it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from rota.stores.mongo import connection
from rota.stores.mongo.address import MongoSettings

WRITES = frozenset({"insert", "update", "delete", "findAndModify", "createIndexes"})


class Overheard(CommandListener):
    """Every command since the last time it was cleared, in the order they were sent."""

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []

    @property
    def counts(self) -> Counter[str]:
        return Counter(next(iter(command)) for command in self.commands)

    def of(self, names: Sequence[str] | frozenset[str]) -> list[dict[str, Any]]:
        return [command for command in self.commands if next(iter(command)) in names]

    def clear(self) -> None:
        self.commands.clear()

    def started(self, event: CommandStartedEvent) -> None:
        self.commands.append(dict(event.command))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Of no concern."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Of no concern: it was sent all the same."""


def overhear(monkeypatch: pytest.MonkeyPatch) -> Overheard:
    """Listen to all that stores say which are opened from now on."""
    overheard, options = Overheard(), connection.options

    def with_listener(settings: MongoSettings) -> dict[str, Any]:
        return {**options(settings), "event_listeners": [overheard]}

    monkeypatch.setattr(connection, "options", with_listener)
    return overheard
