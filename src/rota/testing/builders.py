"""Stored things as an earlier instance left them; valid unless told otherwise."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rota.errors import InvalidInputError
from rota.scheduler.ledger import TASKS
from rota.stores.protocol import DocumentStore, DocumentWrite


async def seed_tasks(store: DocumentStore, records: Iterable[Mapping[str, Any]]) -> None:
    """Put task records into the store, each under its name, replacing what was there.

    The fields are those of specification 1 (name, cronExpression, retryDelayMs, lastAttemptAt,
    lastSuccessAt, lastFailureAt, pendingRetryUntil, schedulerIdentifier); times may be datetimes.
    Apart from the name nothing is checked, so that a record may be as broken as a test needs it.
    """
    bodies = {_name_of(record): msgspec.json.encode(record) for record in records}
    present = await store.read(TASKS, list(bodies))
    await store.write_all(
        [
            DocumentWrite(TASKS, name, present[name].version if name in present else None, body)
            for name, body in bodies.items()
        ]
    )


def _name_of(record: Mapping[str, Any]) -> str:
    name = record.get("name")
    if not isinstance(name, str):
        raise InvalidInputError("name must be a text: it is the record's key", {"field": "name"})
    return name
