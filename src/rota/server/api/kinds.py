"""Kinds of jobs: what is known about their payloads and results."""

from typing import Any

import msgspec

from rota.auth.caller import Scope
from rota.kinds.http_request import HttpRequest
from rota.kinds.log_message import LogMessage
from rota.ops.catalogue import read_kinds
from rota.ops.reasons import ANY_KIND
from rota.server.http.context import ServerContext
from rota.server.http.route import Call, Nothing, Route, route

_BUILT_IN: dict[str, type[msgspec.Struct]] = {
    "http.request": HttpRequest,
    "log.message": LogMessage,
}


class KindView(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of job.

    ``payload_schema`` and ``result_schema`` are JSON Schemas; an empty one says nothing.
    ``is_served``: a worker that runs now serves the kind. ``is_checked``: this server refuses
    payloads that do not fit.
    """

    kind: str
    payload_schema: dict[str, Any] = {}
    result_schema: dict[str, Any] = {}
    queue: str = "default"
    priority: int = 5
    notifies: bool = False
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


async def list_kinds(call: Call[Nothing, Nothing]) -> KindList:
    """List the kinds of jobs with their schemas and defaults.

    A kind is known if an app that is served declares it, or if a worker serves it.
    """
    return KindList(await describe_kinds(call.context))


async def describe_kinds(context: ServerContext) -> list[KindView]:
    """Every kind that is known, by name."""
    entries, served = await read_kinds(context.store), await context.served.list()
    views = [
        KindView(
            kind=kind,
            payload_schema=entry.schema,
            result_schema=entry.result,
            queue=entry.queue,
            priority=entry.priority,
            notifies=entry.notifies,
            doc=entry.doc,
            is_served=kind in served,
            is_checked=context.served.checks(kind),
        )
        for kind, entry in entries.items()
    ]
    views += [
        KindView(kind=kind, payload_schema=_schema_of(kind), is_served=True)
        for kind in served - entries.keys()
        if kind != ANY_KIND
    ]
    return sorted(views, key=lambda view: view.kind)


def _schema_of(kind: str) -> dict[str, Any]:
    """The schema of a built-in kind; nothing is known about another one."""
    model = _BUILT_IN.get(kind)
    return {} if model is None else msgspec.json.schema(model)


ROUTES: tuple[Route, ...] = (route("GET", "/api/v1/kinds", list_kinds, Scope.READ, "jobs"),)
