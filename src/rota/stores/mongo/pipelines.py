"""Filters, updates and pipelines of the steps: what is said to the server, as functions."""

from collections.abc import Collection, Sequence
from typing import Any

from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne

from rota.stores.mongo.gateway import BY_ID, Operation, Query, Raw
from rota.stores.mongo.steps.names import (
    AFTER,
    BEAT,
    COMMITTED,
    INTENTS,
    LOCK,
    PENDING,
    VERSION,
)

NOBODY: dict[str, Any] = {"$exists": False}
"""What a lock is when no step has laid claim to the document."""


def by_ids(collection: str, ids: Collection[str], fields: Sequence[str] | None = None) -> Query:
    """The documents that exist among these."""
    return Query(collection, {"_id": {"$in": list(ids)}}, fields=fields, by=BY_ID)


def declare(step_id: str) -> InsertOne[Raw]:
    """Say that a step is under way, before it lays claim to anything."""
    return InsertOne({"_id": step_id, "state": PENDING})


def show_life(step_id: str) -> UpdateOne:
    """Let others see that a long step goes on; nothing when they have called it off."""
    return UpdateOne({"_id": step_id, "state": PENDING}, {"$inc": {BEAT: 1}})


def commit(step_id: str) -> UpdateOne:
    """The one write by which a step comes about, with all it has staged."""
    return UpdateOne({"_id": step_id, "state": PENDING}, {"$set": {"state": COMMITTED}})


def call_off(step_id: str) -> DeleteOne:
    """The one write by which a step can never come about; a step that has is left alone."""
    return DeleteOne({"_id": step_id, "state": PENDING})


def forget(step_id: str) -> DeleteOne:
    """Nothing is left to do for the step."""
    return DeleteOne({"_id": step_id})


def find_intents(step_ids: Collection[str]) -> Query:
    """What is known of these steps."""
    return Query(INTENTS, {"_id": {"$in": list(step_ids)}}, by=BY_ID)


def list_intents(limit: int) -> Query:
    """Steps under way or left behind, the oldest first."""
    return Query(INTENTS, {}, [("_id", 1)], limit, by=BY_ID)


def list_claims(collection: str, limit: int) -> Query:
    """Documents to which some step has laid claim."""
    return Query(collection, {LOCK: {"$exists": True}}, (), limit, [LOCK], "claims")


def stage(step_id: str, raw_id: str, version: int | None, after: Raw | None) -> Operation:
    """Lay claim to a document that is still at a version, or not there, and say what it will be.

    A key that it will have is taken at once: no two documents may ever have the same.
    """
    if version is None:
        claimed: Raw = {"_id": raw_id, LOCK: step_id, AFTER: after}
        if after is not None and "keys" in after:
            claimed["keys"] = after["keys"]
        return InsertOne(claimed)
    update: dict[str, Any] = {"$set": {LOCK: step_id, AFTER: after}}
    if after is not None and "keys" in after:
        update["$addToSet"] = {"keys": {"$each": after["keys"]}}
    return UpdateOne({"_id": raw_id, VERSION: version, LOCK: NOBODY}, update)


def write_alone(raw_id: str, version: int | None, after: Raw | None) -> Operation:
    """Write one document that is still at a version, or not there, and nobody's."""
    if version is None:
        return InsertOne({"_id": raw_id, **(after or {})})
    free = {"_id": raw_id, VERSION: version, LOCK: NOBODY}
    return DeleteOne(free) if after is None else ReplaceOne(free, after)


def say_after(step_id: str, raw_id: str, after: Raw | None) -> UpdateOne:
    """What becomes of a document to which the step has laid claim."""
    return UpdateOne({"_id": raw_id, LOCK: step_id}, {"$set": {AFTER: after}})


def list_claimed(collection: str, step_id: str, limit: int) -> Query:
    """Documents to which this step lays claim."""
    return Query(collection, {LOCK: step_id}, (), limit, ["_id"], "claims")


def reveal(step_id: str, ids: Sequence[str]) -> list[Operation]:
    """Make what a step has staged what the documents are.

    The server does it without being sent anything again. Doing it twice changes nothing: what has
    been revealed has no claim on it.
    """
    become = {"$mergeObjects": [{"_id": "$_id"}, f"${AFTER}"]}
    mine = {"_id": {"$in": list(ids)}, LOCK: step_id}
    return [
        UpdateMany({**mine, AFTER: {"$type": "object"}}, [{"$replaceWith": become}]),
        DeleteMany({**mine, AFTER: None}),
    ]


def undo(step_id: str, ids: Sequence[str]) -> list[Operation]:
    """Take back what a step has staged; doing it twice changes nothing.

    A key that was taken for a document is given back: ``key`` is the one it had before.
    """
    mine = {"_id": {"$in": list(ids)}, LOCK: step_id}
    was_there = {**mine, VERSION: {"$exists": True}}
    return [
        DeleteMany({**mine, VERSION: {"$exists": False}}),
        UpdateMany(
            {**was_there, "key": {"$exists": True}},
            [{"$set": {"keys": ["$key"]}}, {"$unset": [LOCK, AFTER]}],
        ),
        UpdateMany({**was_there, "key": {"$exists": False}}, {"$unset": {LOCK: "", AFTER: ""}}),
    ]
