"""On whose word something is done, for which reason, and with what."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rota.errors import JobNotFoundError
from rota.jobs import Job, JobId
from rota.rail import DeadLetters, Rail
from rota.rail.audit import LONGEST_WHY
from rota.rail.jobs import RailContext, RailSettings
from rota.server.api.shapes.limited import NO_NUL
from rota.server.routing.route import Call

Why = Annotated[
    str,
    Meta(
        description="The reason, for the audit log.",
        max_length=LONGEST_WHY,
        extra_json_schema={**NO_NUL, "examples": ["asked for by the customer"]},
    ),
]


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why it is done; the audit log also has who did it, which is the name of the token."""

    why: Why | None = None


def surroundings_of(call: Call[Any, Any]) -> RailContext:
    """What the verbs of operators work with, for the tenant of whoever calls."""
    around = call.around
    return RailContext(
        around.store, call.caller.tenant, around.clock, RailSettings(), around.draw_bits
    )


def rail_of(call: Call[Any, Any]) -> Rail:
    """The rail of the caller's tenant."""
    around = call.around
    return Rail(around.store, call.caller.tenant, clock=around.clock, draw_bits=around.draw_bits)


def letters_of(call: Call[Any, Any]) -> DeadLetters:
    """The dead letters of the caller's tenant."""
    around = call.around
    return DeadLetters(
        around.store, call.caller.tenant, clock=around.clock, draw_bits=around.draw_bits
    )


async def read_job(call: Call[Any, Any], job_id: JobId | None = None) -> Job:
    """The job that the path names, or another; JobNotFoundError when the tenant has none."""
    wanted = job_id or call.path["job_id"]
    found = await call.around.store.get(call.caller.tenant, [wanted])
    if wanted not in found:
        raise JobNotFoundError(wanted)
    return found[wanted]
