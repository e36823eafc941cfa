"""The indexes of a store, each beside what it serves. ``_id`` has one of its own everywhere."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pymongo import IndexModel

from rota.stores.mongo.steps.names import DOCUMENTS, JOBS


class Index(NamedTuple):
    """An index, and which queries go by it."""

    collection: str
    name: str
    keys: Sequence[tuple[str, int]]
    serves: str
    options: Mapping[str, Any] = {}

    @property
    def model(self) -> IndexModel:
        return IndexModel(list(self.keys), name=self.name, **self.options)


_SPARSE = {"sparse": True}
"""Only of documents that have the field; for an index of one field only.

One of several holds every document that has any of them, and all have an id.
"""
_ORDER = (("priority", -1), ("created_at", 1), ("_id", 1))


def _lane(name: str) -> dict[str, Any]:
    """Only of the jobs in one lane: those that have ended or wait elsewhere cost nothing."""
    return {"partialFilterExpression": {"lane": name}}


def _having(field: str) -> dict[str, Any]:
    """Only of the jobs that have a field.

    An index that is merely sparse holds every job when it has ``_id`` or a tenant beside it.
    """
    return {"partialFilterExpression": {field: {"$exists": True}}}


INDEXES = (
    Index(DOCUMENTS, "claims", [("lock", 1)], "reveal, undo, list_claims", _SPARSE),
    Index(JOBS, "claims", [("lock", 1)], "reveal, undo, list_claims", _SPARSE),
    Index(JOBS, "keys", [("keys", 1)], "by_digests", {"unique": True, **_SPARSE}),
    Index(
        JOBS,
        "due",
        [("tenant", 1), *_ORDER, ("due_at", 1)],
        "next_tenant, first_in_turn and first_due of all queues",
        _lane("due"),
    ),
    Index(
        JOBS,
        "due_in_queue",
        [("tenant", 1), ("queue", 1), *_ORDER, ("due_at", 1)],
        "next_tenant, next_queue, first_in_turn and first_due of some queues",
        _lane("due"),
    ),
    Index(
        JOBS,
        "later",
        [("due_at", 1), ("_id", 1), ("tenant", 1), ("queue", 1)],
        "became_due, next_due",
        _lane("later"),
    ),
    Index(
        JOBS,
        "later_in_queue",
        [("queue", 1), ("due_at", 1), ("tenant", 1)],
        "next_due of some queues",
        _lane("later"),
    ),
    Index(JOBS, "leased", [("until", 1), ("_id", 1)], "expired", _lane("running")),
    Index(
        JOBS,
        "surveyed",
        [("lane", 1), ("tenant", 1), ("queue", 1), ("due_at", 1), ("until", 1)],
        "count_running, survey",
        _having("lane"),
    ),
    Index(
        JOBS,
        "listed",
        [("tenant", 1), ("created_at", -1), ("_id", 1)],
        "list_page without a status",
    ),
    Index(
        JOBS,
        "listed_by_status",
        [("tenant", 1), ("status", 1), ("created_at", -1), ("_id", 1)],
        "list_page with a status",
    ),
    Index(
        JOBS,
        "recurring",
        [("tenant", 1), ("is_recurring", 1), ("status", 1), ("created_at", -1), ("_id", 1)],
        "list_page of series",
        {"partialFilterExpression": {"is_recurring": True}},
    ),
    Index(
        JOBS,
        "depending",
        [("dependencies", 1), ("_id", 1)],
        "dependents_of",
        _having("dependencies"),
    ),
    Index(JOBS, "prunable", [("ended_at", 1), ("_id", 1)], "ended", _having("ended_at")),
)

RETIRED = {JOBS: ("lanes", "dependents", "ended")}
"""The names of indexes that earlier versions have made, by collection."""
