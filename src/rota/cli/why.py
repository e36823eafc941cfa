"""``rota why``: explains the state of a job.

A store is asked directly, without the service's interface: the command answers at once.
"""

import asyncio
from datetime import datetime
from typing import Annotated, Any

import msgspec

from rota.cli.options import JobArgument, ask_about, value
from rota.cli.session import HERE, Target, TenantSession
from rota.clock.protocol import Clock, keeps_real_time
from rota.escape import escape
from rota.ops.explain import explain_job
from rota.runtime.wiring import open_clock, open_store

AtOption = Annotated[
    str | None,
    value(
        "INSTANT",
        "Explain this instant: whether the job, or its series, ran then or will run. ISO 8601; "
        "without an offset, wall time in the zone of the series. Default: the present state.",
    ),
]


def why(job_id: JobArgument, /, *, at: AtOption = None, session: TenantSession = HERE) -> None:
    """Print why a job is in its state, and what happens next."""
    question, target = ask_about(at), session.find_target()
    job_id = session.find_job(job_id)
    if target.is_server:
        answer = session.get("jobs", job_id, "why", query=question)
    else:
        answer = asyncio.run(_explain(session.terminal.clock, target, job_id, question))
    if session.is_done(answer):
        return
    session.terminal.print_text(escape(answer["sentence"]), "bold")
    for reason in answer["reasons"]:
        session.terminal.print_item(escape(reason["text"]))


async def _explain(
    given: Clock, target: Target, job_id: str, question: dict[str, str]
) -> dict[str, Any]:
    target.require()
    moment = next(map(datetime.fromisoformat, question.values()), None)
    async with await open_store(target.url) as store, open_clock(store) as store_clock:
        clock = store_clock if keeps_real_time(given) else given
        job = (store, clock, target.tenant, job_id)
        if moment is None:
            found = await explain_job(*job)
        else:
            from rota.ops.explain_at import explain_job_at  # noqa: PLC0415 - only --at needs it

            found = await explain_job_at(*job, moment)
        answer: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return answer
