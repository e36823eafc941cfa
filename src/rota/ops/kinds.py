"""The kinds of jobs: what apps declare, what workers serve, and what operators have set.

A process that runs an app publishes its tasks as documents of the store. So every other process
knows their payloads: the API validates them, and the pages build forms from them.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

import msgspec

from rota.clock.protocol import Clock
from rota.errors import InvalidArgumentsError, InvalidJobError
from rota.fleet.presence import WorkerPresence, list_workers
from rota.jobs import Job
from rota.policy.audit import AuditedAction, record_action
from rota.policy.gate_settings import KindNotifies
from rota.rail import settings
from rota.rail.jobs import RailContext
from rota.stores.documents import all_documents, decode_body
from rota.stores.protocol import DocumentStore, DocumentWrite

KINDS = "kinds"
"""The collection; the key of a document is the kind."""

OPEN = "x-open"
"""In the schema of an enumeration that takes other values than those it lists."""

READ_EVERY = timedelta(seconds=5)
"""The catalogue and the signs of life of workers are read at most this often."""

ANY_KIND = "*"
"""The kind of a worker that takes every job of its queues, as HTTP workers do."""


class KindEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kind of job: JSON Schemas of its payload and result, and the defaults of its jobs."""

    schema: dict[str, Any]
    result: dict[str, Any] = {}
    queue: str = "default"
    priority: int = 5
    notifies: bool = False
    doc: str = ""


_encode = msgspec.json.Encoder().encode  # the parameters stay in the order of the signature


async def publish_kinds(store: DocumentStore, entries: Mapping[str, KindEntry]) -> None:
    """Write the entries that are new or have changed. Others of the catalogue stay."""
    known = await store.read(KINDS, [*entries]) if entries else {}
    writes = [
        DocumentWrite(KINDS, kind, known[kind].version if kind in known else None, body)
        for kind, body in ((kind, _encode(entry)) for kind, entry in entries.items())
        if kind not in known or known[kind].body != body
    ]
    if writes:
        await store.write_each(writes)  # a stale one: another process publishes the same app


async def read_kinds(store: DocumentStore) -> dict[str, KindEntry]:
    """The whole catalogue, by kind. Entries that a later version wrote differently are left out."""
    found: dict[str, KindEntry] = {}
    async for document in all_documents(store, KINDS):
        entry = decode_body(document, KindEntry, None)
        if entry is not None:
            found[document.key] = entry
    return found


class Catalogue:
    """Which kinds notify people, as the apps that are served say; read every few seconds."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._notifying: frozenset[str] = frozenset()
        self._read_at: datetime | None = None

    async def list_notifying(self, now: datetime) -> frozenset[str]:
        """The kinds whose jobs notify people."""
        if self._read_at is None or not now - READ_EVERY < self._read_at <= now:
            kinds = await read_kinds(self._store)
            self._notifying = frozenset(kind for kind, each in kinds.items() if each.notifies)
            self._read_at = now
        return self._notifying


CheckPayload: TypeAlias = Callable[[Any], object]
"""Raises InvalidArgumentsError if a payload does not fit."""


async def read_checks(store: DocumentStore) -> dict[str, CheckPayload]:
    """A check for each kind of the catalogue, for a process that does not have the app itself."""
    kinds = await read_kinds(store)
    return {kind: partial(check_schema, kind, entry.schema) for kind, entry in kinds.items()}


def check_schema(kind: str, schema: Mapping[str, Any], payload: Any) -> None:
    """Refuse a payload with names or types that its JSON Schema does not allow.

    What a schema says beyond that, or in a way that this version does not know, is left to the
    worker: it knows the types themselves.
    """
    try:
        misfit = _find_misfit(schema, payload, schema.get("$defs", {}))
    except _UNKNOWN_SCHEMA:
        return
    if misfit is not None:
        path, reason = misfit
        raise InvalidArgumentsError(kind, path.removeprefix(".") or None, reason)


_UNKNOWN_SCHEMA = (AttributeError, TypeError, ValueError, RecursionError)
"""What reading a schema raises that does not look as this version writes it."""


def _find_misfit(
    schema: Mapping[str, Any], value: Any, definitions: Mapping[str, Any]
) -> tuple[str, str] | None:
    """The path of the first value that does not fit, and why."""
    if isinstance(value, dict) and _OUTPUTS & value.keys():
        return None  # the result of another job, which is not there yet
    if "$ref" in schema:
        schema = definitions.get(schema["$ref"].rpartition("/")[2], {})
    if "anyOf" in schema:
        found = [_find_misfit(each, value, definitions) for each in schema["anyOf"]]
        return None if None in found else min(filter(None, found), key=lambda it: not it[0])
    if "enum" in schema and value not in schema["enum"] and not schema.get(OPEN):
        allowed = ", ".join(map(repr, schema["enum"]))
        return "", f"must be one of {allowed}, got {value!r:.60}"
    expected = str(schema.get("type"))
    if expected in _TYPES and not _is_of(expected, value, schema.get("format")):
        return "", f"must be {_TYPES[expected][0]}, got {value!r:.60}"
    if isinstance(value, dict):
        return _find_in_object(schema, value, definitions)
    return _find_in_list(schema, value, definitions) if isinstance(value, list) else None


_OUTPUTS = {"$output", "$outputs"}
_TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "integer": ("an integer", (int,)),
    "number": ("a number", (int, float)),
    "string": ("a text", (str,)),
    "boolean": ("true or false", (bool,)),
    "null": ("null", (type(None),)),
    "object": ("an object", (dict,)),
    "array": ("a list", (list,)),
}


def _is_of(expected: str, value: Any, form: str | None) -> bool:
    if isinstance(value, bool):
        return expected == "boolean"
    _, types = _TYPES[expected]
    return isinstance(value, types) or (form == "decimal" and isinstance(value, int | float))


def _find_in_object(
    schema: Mapping[str, Any], value: dict[str, Any], definitions: Mapping[str, Any]
) -> tuple[str, str] | None:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name in schema.get("required", ()):
        if (
            name not in value and len(properties.get(name, {}).get("enum", ())) != 1
        ):  # else it is a tag
            return f".{name}", "is missing"
    for name, inner in value.items():
        if name not in properties and others is False:
            return f".{name}", f"is not known; known are: {', '.join(properties) or 'none'}"
        misfit = _find_misfit(properties.get(name, others), inner, definitions)
        if misfit is not None:
            return f".{name}{misfit[0]}", misfit[1]
    return None


def _find_in_list(
    schema: Mapping[str, Any], value: list[Any], definitions: Mapping[str, Any]
) -> tuple[str, str] | None:
    first, rest = schema.get("prefixItems", ()), schema.get("items") or {}
    for place, inner in enumerate(value):
        misfit = _find_misfit(first[place] if place < len(first) else rest, inner, definitions)
        if misfit is not None:
            return f"[{place}]{misfit[0]}", misfit[1]
    return None


class ServedKinds:
    """The kinds that running workers serve, and those whose payloads this process can check."""

    def __init__(
        self, store: DocumentStore, clock: Clock, checks: Mapping[str, CheckPayload] | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._checks = checks or {}
        self._workers: Sequence[WorkerPresence] = ()
        self._read_at: datetime | None = None

    def checks(self, kind: str) -> bool:
        """Whether payloads of this kind are checked here."""
        return kind in self._checks

    def check(self, kind: str, payload: Any) -> None:
        """Refuse a payload that does not fit its kind; the error names the path of the field."""
        check = self._checks.get(kind)
        if check is None:
            return
        try:
            check(payload)
        except InvalidArgumentsError as error:
            field = "payload" if error.argument is None else f"payload.{error.argument}"
            raise InvalidJobError(field, error.reason) from error

    async def list(self) -> frozenset[str]:
        """The kinds that running workers serve, as of a few seconds ago."""
        return frozenset(kind for worker in await self._list_workers() for kind in worker.kinds)

    async def list_notifying(self) -> frozenset[str]:
        """The kinds that notify people, as running workers say."""
        return frozenset(kind for worker in await self._list_workers() for kind in worker.notifying)

    async def _list_workers(self) -> Sequence[WorkerPresence]:
        now = self._clock.now()
        if self._read_at is None or not now - READ_EVERY < self._read_at <= now:
            self._workers = await list_workers(self._store, now)
            self._read_at = now
        return self._workers

    async def warn(self, job: Job) -> str | None:
        """A warning, in ASCII and without quotes, if no running worker serves the job's kind."""
        served = await self.list()
        if job.kind in served or ANY_KIND in served or job.status.is_terminal:
            return None
        kind = ascii(job.kind).replace('"', "'")
        return f"No running worker serves kind {kind}: the job waits until one does."


_UNKNOWN = KindEntry(schema={})


class KnownKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of job, as its app describes it.

    ``is_served``: a running worker serves it. ``declared_notifies``: its app or a running worker
    says that its jobs notify people. ``set_notifies`` is what an operator has set instead.
    """

    kind: str
    entry: KindEntry = _UNKNOWN
    is_served: bool = False
    declared_notifies: bool = False
    set_notifies: bool | None = None

    @property
    def notifies(self) -> bool:
        """Whether quiet hours hold back its jobs, unless a job says otherwise."""
        return self.declared_notifies if self.set_notifies is None else self.set_notifies


async def list_known_kinds(store: DocumentStore, served: ServedKinds) -> list[KnownKind]:
    """The kinds that an app declares, a worker serves or an operator has set, by name."""
    entries, kinds = await read_kinds(store), await served.list() - {ANY_KIND}
    loud = await served.list_notifying()
    chosen = {
        it.kind: it.notifies
        for it in (await settings.list_gates(store)).entries
        if isinstance(it, KindNotifies)
    }
    return [
        KnownKind(
            kind=kind,
            entry=entries.get(kind, _UNKNOWN),
            is_served=kind in kinds,
            declared_notifies=kind in loud or entries.get(kind, _UNKNOWN).notifies,
            set_notifies=chosen.get(kind),
        )
        for kind in sorted({*entries, *kinds, *chosen})
    ]


async def set_notifies(
    context: RailContext, kind: str, *, notifies: bool | None, who: str, why: str | None = None
) -> None:
    """Set whether jobs of a kind notify people, for all tenants; None: as the kind declares.

    ``context`` is that of ``EVERYBODY``: the audit log has the change under that name.
    """
    details = {"kind": kind, "notifies": notifies}
    act = AuditedAction(action="set_kind_notifies", who=who, why=why, details=details)
    await record_action(context, act)
    await settings.set_kind_notifies(context.store, kind, notifies=notifies, clock=context.clock)
