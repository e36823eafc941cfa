"""Kinds of jobs: what is known about their payloads and results."""

from typing import Any

import msgspec

from rota.auth.caller import Scope
from rota.ops.catalogue import read_kinds
from rota.server.http.route import Call, Nothing, Route, route


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


class KindList(msgspec.Struct, frozen=True):
    """All kinds that are known, by name."""

    items: list[KindView]


async def list_kinds(call: Call[Nothing, Nothing]) -> KindList:
    """List the kinds of jobs with their schemas and defaults.

    A kind is known if an app that is served declares it, or if a worker serves it.
    """
    context = call.context
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
    others = sorted(kind for kind in served - entries.keys() if kind != "*")
    views += [KindView(kind=kind, is_served=True) for kind in others]
    return KindList(sorted(views, key=lambda view: view.kind))


ROUTES: tuple[Route, ...] = (route("GET", "/api/v1/kinds", list_kinds, Scope.READ, "jobs"),)
