"""Kinds of jobs: what is known about them, and whether they notify people."""

from typing import Any

import msgspec

from rota.auth.caller import Scope
from rota.jobs.fields import read_word
from rota.kinds.http_request import HttpRequest
from rota.kinds.log_message import LogMessage
from rota.ops.kinds import KnownKind, list_known_kinds, set_notifies
from rota.server.api.fields import Kind, Why
from rota.server.http.context import ServerContext
from rota.server.http.route import Answer, Call, Nothing, Resource

KINDS = Resource("/api/v1/kinds", "jobs")


_BUILT_IN: dict[str, type[msgspec.Struct]] = {
    "http.request": HttpRequest,
    "log.message": LogMessage,
}


class KindView(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of job.

    ``payload_schema`` and ``result_schema`` are JSON Schemas; an empty one says nothing.
    ``is_served``: a worker that runs now serves the kind. ``is_checked``: this server refuses
    payloads that do not fit. ``notifies``: quiet hours hold back its jobs; ``set_notifies`` is what
    an operator has set, and null if the app or the worker decides.
    """

    kind: str
    payload_schema: dict[str, Any] = {}
    result_schema: dict[str, Any] = {}
    queue: str = "default"
    priority: int = 5
    notifies: bool = False
    set_notifies: bool | None = None
    doc: str = ""
    is_served: bool = False
    is_checked: bool = False

    @property
    def argument_names(self) -> list[str]:
        """The names in a payload, as far as they are known."""
        whole = self.payload_schema
        if "$ref" in whole:
            whole = whole["$defs"][whole["$ref"].rpartition("/")[2]]
        return list(whole.get("properties", ()))


class KindList(msgspec.Struct, frozen=True):
    """All kinds that are known, by name."""

    items: list[KindView]


class NotifiesBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether jobs of the kind notify people, whatever its app and its workers say."""

    kind: Kind
    notifies: bool
    why: Why | None = None


class KindChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kind."""

    kind: Kind | None = None


@KINDS.route("GET", "", Scope.READ)
async def list_kinds(call: Call[Nothing, Nothing]) -> KindList:
    """List the kinds of jobs with their schemas and defaults.

    A kind is known if an app that is served declares it, if a worker serves it, or if an operator
    has set whether it notifies people.
    """
    return KindList(await describe_kinds(call.context))


async def describe_kinds(context: ServerContext, *, with_built_in: bool = False) -> list[KindView]:
    """Every kind that is known, by name; with the built-in ones even if no worker serves them."""
    known = await list_known_kinds(context.store, context.served)
    views = {it.kind: _view(it, is_checked=context.served.checks(it.kind)) for it in known}
    for kind in _BUILT_IN if with_built_in else ():
        views.setdefault(kind, _view(KnownKind(kind=kind), is_checked=False))
    return [views[kind] for kind in sorted(views)]


@KINDS.route("PUT", "/notifies", Scope.ADMIN, tag="gates")
async def put_notifies(call: Call[NotifiesBody, Nothing]) -> KindView:
    """Set whether quiet hours hold back the jobs of a kind, for all tenants.

    A job or series that says so itself is not affected.
    """
    body = call.body
    await _set(call, body.kind, body.why, notifies=body.notifies)
    known = await list_known_kinds(call.store, call.context.served)
    found = next((it for it in known if it.kind == body.kind), KnownKind(kind=body.kind))
    return _view(found, is_checked=call.context.served.checks(body.kind))


@KINDS.route("DELETE", "/notifies", Scope.ADMIN, answers={204: None}, tag="gates")
async def delete_notifies(call: Call[Nothing, KindChoice]) -> Answer:
    """Let the app and the workers of a kind say again whether it notifies people."""
    await _set(call, call.query.kind or "", None, notifies=None)
    return Answer(204)


async def _set(call: Call[Any, Any], kind: str, why: str | None, *, notifies: bool | None) -> None:
    read_word(kind, "kind")
    await set_notifies(call.around_of(None), kind, notifies=notifies, who=call.who, why=why)


def _view(known: KnownKind, *, is_checked: bool) -> KindView:
    entry, model = known.entry, _BUILT_IN.get(known.kind)
    return KindView(
        kind=known.kind,
        payload_schema=entry.schema or ({} if model is None else msgspec.json.schema(model)),
        result_schema=entry.result,
        queue=entry.queue,
        priority=entry.priority,
        notifies=known.notifies,
        set_notifies=known.set_notifies,
        doc=entry.doc,
        is_served=known.is_served,
        is_checked=is_checked,
    )
