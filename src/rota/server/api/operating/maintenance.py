"""Maintenance: nothing runs, for a tenant, in a queue, or at all, until it is over."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidRequestError
from rota.jobs.fields import read_instant
from rota.jobs.misfits import IN_WORDS
from rota.policy.gate_settings import EVERYTHING, ScopedMaintenance
from rota.policy.gate_settings import Scope as GateScope
from rota.policy.maintenance import LONGEST_REASON, Maintenance
from rota.rail import settings as stored_settings
from rota.rail.audit import AuditedAction, record_action
from rota.rail.jobs import RailContext
from rota.rail.settings import EVERYBODY
from rota.server.api.operating.gates import GATES, MaintenanceView, view_maintenance
from rota.server.api.operating.word import surroundings_of
from rota.server.api.shapes.limited import QueueName
from rota.server.api.shapes.words import InstantText
from rota.server.routing.route import Answer, Call, Nothing, Route

OWN = f"{GATES}/maintenance"
INSTALLATION = f"{GATES}/maintenance/installation"

Text = Annotated[
    str,
    Meta(
        description="Why, for people; the jobs that wait are told.",
        max_length=LONGEST_REASON,
        pattern="^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
        extra_json_schema={"examples": ["database upgrade"]},
        extra={IN_WORDS: "must be one line of text"},
    ),
]


class MaintenanceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From when and until when; without ``until`` it lasts until it is cleared.

    It takes the place of what was planned before, or stands beside it with ``is_added``.
    """

    from_at: InstantText | None = None
    until: InstantText | None = None
    reason: Text | None = None
    is_added: bool = False


class WideMaintenanceBody(MaintenanceBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same for a queue of all tenants or, without one, for everything."""

    queue: QueueName | None = None


class QueueChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For which queue; left out, for everything."""

    queue: QueueName | None = None


async def set_maintenance(call: Call[MaintenanceBody, Nothing]) -> list[MaintenanceView]:
    """Hold back everything of your tenant for a time."""
    scope = GateScope(tenant=call.caller.tenant)
    return await _set(call, scope, surroundings_of(call))


async def clear_maintenance(call: Call[Nothing, Nothing]) -> Answer:
    """Let the jobs of your tenant run again; it is no error if there is no maintenance."""
    act = AuditedAction(action="set_maintenance", who=call.caller.who, details={"isOn": False})
    await record_action(surroundings_of(call), act)
    await stored_settings.clear_maintenance(call.around.store, GateScope(tenant=call.caller.tenant))
    return Answer(204)


async def set_wide_maintenance(
    call: Call[WideMaintenanceBody, Nothing],
) -> list[MaintenanceView]:
    """Hold back a queue of all tenants, or everything, for a time."""
    scope = EVERYTHING if call.body.queue is None else GateScope(queue=call.body.queue)
    return await _set(call, scope, surroundings_of(call)._replace(tenant=EVERYBODY))


async def clear_wide_maintenance(call: Call[Nothing, QueueChoice]) -> Answer:
    """Let a queue, or everything, run again; it is no error if there is no maintenance."""
    queue = call.query.queue
    scope = EVERYTHING if queue is None else GateScope(queue=queue)
    details = {"isOn": False, "queue": queue}
    act = AuditedAction(action="set_maintenance", who=call.caller.who, details=details)
    await record_action(surroundings_of(call)._replace(tenant=EVERYBODY), act)
    await stored_settings.clear_maintenance(call.around.store, scope)
    return Answer(204)


async def _set(
    call: Call[MaintenanceBody, Nothing] | Call[WideMaintenanceBody, Nothing],
    scope: GateScope,
    around: RailContext,
) -> list[MaintenanceView]:
    now, store = call.around.clock.now(), call.around.store
    window = _read_window(call.body, call.caller.who)
    if window.until is not None and window.until <= now:
        raise InvalidRequestError("until", "is over already: must be later than now")
    details = {"isOn": True, "queue": scope.queue, "isAdded": call.body.is_added}
    why = call.body.reason
    act = AuditedAction(action="set_maintenance", who=call.caller.who, why=why, details=details)
    await record_action(around, act)
    if call.body.is_added:
        await stored_settings.plan_maintenance(store, scope, window, now)
    else:
        await stored_settings.set_maintenance(store, scope, window)
    for entry in (await stored_settings.list_gates(store)).entries:
        if isinstance(entry, ScopedMaintenance) and entry.scope == scope:
            return view_maintenance(entry, now)
    return []


def _read_window(asked: MaintenanceBody, who: str) -> Maintenance:
    from_at = None if asked.from_at is None else read_instant(asked.from_at, "from_at")
    until = None if asked.until is None else read_instant(asked.until, "until")
    if from_at is not None and until is not None and until <= from_at:
        raise InvalidRequestError("until", "must be later than from_at")
    return Maintenance(from_at=from_at, until=until, reason=asked.reason or "", who=who)


ROUTES: tuple[Route, ...] = (
    Route(
        method="PUT",
        path=OWN,
        handler=set_maintenance,
        scope=Scope.OPERATE,
        tag="gates",
        body=MaintenanceBody,
        answers={200: list[MaintenanceView]},
    ),
    Route(
        method="DELETE",
        path=OWN,
        handler=clear_maintenance,
        scope=Scope.OPERATE,
        tag="gates",
        answers={204: None},
    ),
    Route(
        method="PUT",
        path=INSTALLATION,
        handler=set_wide_maintenance,
        scope=Scope.ADMIN,
        tag="gates",
        body=WideMaintenanceBody,
        answers={200: list[MaintenanceView]},
    ),
    Route(
        method="DELETE",
        path=INSTALLATION,
        handler=clear_wide_maintenance,
        scope=Scope.ADMIN,
        tag="gates",
        query=QueueChoice,
        answers={204: None},
    ),
)
