"""Polls any MongoDB collection, as mongodb-cron does.

Needs the extra ``rota[mongo]``. Only the field with the time that a document sleeps until is
written, so other programs with the same rules can share the collection.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict, Unpack

from msgspec import UNSET

from rota.clock.loop import in_flight
from rota.clock.protocol import END_OF_TIME, to_utc
from rota.errors import MissingExtraError, StoreError, StoreUnavailableError, invalid
from rota.poller.protocol import JobUpdate, PolledJob

try:
    from bson.codec_options import DatetimeConversion
    from bson.datetime_ms import DatetimeMS
    from bson.errors import BSONError
    from pymongo import ASCENDING, ReturnDocument, WriteConcern
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.errors import ConnectionFailure, PyMongoError
except ModuleNotFoundError as error:
    raise MissingExtraError("Collections of MongoDB", "pymongo", "mongo") from error

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BEGINNING = datetime.min.replace(tzinfo=UTC)
_SEGMENT = re.compile(r"[A-Za-z0-9_]+")
_DEFAULTS = {
    "sleep_until_field": "sleepUntil",
    "interval_field": "interval",
    "repeat_until_field": "repeatUntil",
    "auto_remove_field": "autoRemove",
}


class FieldPaths(TypedDict, total=False):
    """The paths of the fields in a document; dots lead into inner documents, as in ``cron.at``.

    The defaults are ``sleepUntil``, ``interval``, ``repeatUntil`` and ``autoRemove``.
    """

    sleep_until_field: str
    interval_field: str
    repeat_until_field: str
    auto_remove_field: str


class MongoCollectionStore:
    """The documents of a collection: a ``PollableStore``.

    ``condition`` is a MongoDB filter that documents must also match. A lock is durable: it is in
    the journals of a majority, or in the journal of a standalone server.
    """

    def __init__(
        self,
        collection: "AsyncCollection[Any]",
        condition: Mapping[str, Any] | None = None,
        **fields: Unpack[FieldPaths],
    ) -> None:
        self._collection = _reading_all_dates(collection)
        self._is_durable = False
        self._paths = _read_paths(fields)
        self._sleep_until = self._paths["sleep_until_field"]
        self._condition = _read_condition(condition)

    @property
    def label(self) -> str:
        """What is polled, for people."""
        return f"collection {self._collection.full_name}"

    async def create_index(self) -> str:
        """Create the index for ``lock_next`` unless it exists; returns its name."""
        with _translated(self._collection), in_flight():
            return await self._collection.create_index([*self._order, ("_id", ASCENDING)])

    async def lock_next(self, lock_until: datetime, now: datetime) -> PolledJob | None:
        """Lock the next document; see the protocol.

        One atomic ``findOneAndUpdate``, which returns the document as it was before.
        """
        until = to_utc(lock_until, "lock_until")
        with _translated(self._collection), in_flight():
            await self._make_durable()
            found = await self._collection.find_one_and_update(
                self._awake(to_utc(now, "now")),
                {"$set": {self._sleep_until: until}},
                sort=self._order,
                return_document=ReturnDocument.BEFORE,
            )
        return None if found is None else self._read(found, until)

    async def update(self, job: PolledJob, update: JobUpdate, now: datetime) -> bool:  # noqa: ARG002 - required by the protocol
        """Write the update and end the lock; see the protocol."""
        written: dict[str, Any] = {}
        if update.sleep_until is not UNSET:
            written[self._sleep_until] = update.sleep_until
        if update.auto_remove is not UNSET:
            written[self._paths["auto_remove_field"]] = update.auto_remove
        with _translated(self._collection), in_flight():
            if not written:
                return await self._collection.find_one(self._held(job), {"_id": 1}) is not None
            answer = await self._collection.update_one(self._held(job), {"$set": written})
        return answer.matched_count > 0

    async def remove(self, job: PolledJob) -> bool:
        """Remove the document; see the protocol."""
        with _translated(self._collection), in_flight():
            answer = await self._collection.delete_one(self._held(job))
        return answer.deleted_count > 0

    async def _make_durable(self) -> None:
        """Choose the write concern for this server, once.

        A standalone server writes to its journal only if it is asked for a majority.
        """
        if self._is_durable:
            return
        hello = await self._collection.database.client.admin.command("hello")
        is_alone = "setName" not in hello and hello.get("msg") != "isdbgrid"
        durable = WriteConcern(w=1 if is_alone else "majority", j=True)
        self._collection = self._collection.with_options(write_concern=durable)
        self._is_durable = True

    @property
    def _order(self) -> list[tuple[str, int]]:
        """Served by an index on this field alone, which users of mongodb-cron have."""
        return [(self._sleep_until, ASCENDING)]

    def _awake(self, now: datetime) -> dict[str, Any]:
        """The filter of mongodb-cron: a value that is not a date is awake too."""
        conditions: list[dict[str, Any]] = [
            {self._sleep_until: {"$exists": True, "$ne": None}},
            {self._sleep_until: {"$not": {"$gt": now}}},
        ]
        return {"$and": conditions + ([self._condition] if self._condition else [])}

    def _held(self, job: PolledJob) -> dict[str, Any]:
        """The document while it has this job's lock: no two locks end at the same instant.

        The driver truncates both dates to the millisecond.
        """
        return {"_id": job.id, self._sleep_until: job.lock}

    def _read(self, document: Mapping[str, Any], until: datetime) -> PolledJob:
        found = {name: _find(document, path) for name, path in self._paths.items()}
        repeat_until = found["repeat_until_field"]
        return PolledJob(
            id=document["_id"],
            sleep_until=_as_instant(found["sleep_until_field"]),
            interval=found["interval_field"],
            repeat_until=_as_instant(repeat_until) if _is_true(repeat_until) else None,
            auto_remove=_is_true(found["auto_remove_field"]),
            payload=document,
            lock=until,
        )


def _read_paths(fields: Mapping[str, Any]) -> dict[str, str]:
    for name in fields:
        if name not in _DEFAULTS:
            raise TypeError(f"MongoCollectionStore() has no option {name!r}")
    paths = {name: _read_path(name, fields.get(name, path)) for name, path in _DEFAULTS.items()}
    for name, path in paths.items():
        others = [other for each, other in paths.items() if each != name]
        if any(f"{other}.".startswith(f"{path}.") for other in others):
            raise invalid(name, f"must not be, or lead to, another field, got {path!r}")
    return paths


def _read_path(name: str, path: object) -> str:
    if not isinstance(path, str):
        raise invalid(name, f"must be a text, got {type(path).__name__}")
    segments = path.split(".")
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        reason = "must be names of the characters a-z, A-Z, 0-9 and _, with dots between"
        raise invalid(name, f"{reason}, got {path!r:.80}")
    if segments[0] == "_id":
        raise invalid(name, "must not lead into _id, which cannot change")
    return path


def _read_condition(condition: object) -> dict[str, Any]:
    if condition is None:
        return {}
    if not isinstance(condition, Mapping):
        raise invalid("condition", f"must be a filter, got {type(condition).__name__}")
    return deepcopy(dict(condition))


def _reading_all_dates(collection: "AsyncCollection[Any]") -> "AsyncCollection[Any]":
    """The collection, set to read dates after the year 9999 without an error.

    Otherwise a document that has one could be locked but not read.
    """
    options = collection.codec_options
    if options.datetime_conversion != DatetimeConversion.DATETIME:
        return collection
    options = options.with_options(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
    return collection.with_options(codec_options=options)


def _find(document: Mapping[str, Any], path: str) -> Any:
    found: Any = document
    for segment in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(segment)
        elif isinstance(found, list) and segment.isdecimal():
            found = found[int(segment)] if int(segment) < len(found) else None
        else:
            return None
    return found


def _is_true(value: Any) -> bool:
    """Whether JavaScript counts the value as true: empty objects and lists are."""
    return value not in (None, False, 0, "") and value == value  # noqa: PLR0124 - NaN is not


def _as_instant(value: Any) -> Any:
    """The instant of a date, a number of milliseconds or an ISO 8601 text.

    Without a zone they are in UTC. Any other value is returned as it is.
    """
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            value = _EPOCH + timedelta(milliseconds=value)
        elif isinstance(value, DatetimeMS):
            value = _clamped(int(value))
    except (ValueError, OverflowError):
        return value
    return _in_utc(value) if isinstance(value, datetime) else value


def _in_utc(value: datetime) -> datetime:
    """The instant, or the nearest one of the calendar in UTC."""
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        return END_OF_TIME if value.year > _EPOCH.year else _BEGINNING


def _clamped(milliseconds: int) -> datetime:
    """The instant, or the nearest one of the calendar."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return END_OF_TIME if milliseconds > 0 else _BEGINNING


@contextmanager
def _translated(collection: "AsyncCollection[Any]") -> Iterator[None]:
    """Turn the driver's exceptions into StoreErrors about the collection."""
    try:
        yield
    except ConnectionFailure as error:
        reason = f"{collection.full_name} is not available: {error}"
        raise StoreUnavailableError(
            f"The collection {reason:.500}", {"store": collection.full_name, "outcome": "unknown"}
        ) from error
    except (PyMongoError, BSONError) as error:
        reason = f"{collection.full_name} refuses: {error}"
        raise StoreError(
            f"The collection {reason:.500}", {"store": collection.full_name}
        ) from error
