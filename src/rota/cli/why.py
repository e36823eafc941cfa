"""``rota why``: explains the state of a job.

A store is asked directly, without the service's interface: the command answers at once.
"""

import asyncio
from datetime import datetime
from typing import Annotated, Any

import msgspec

from rota.cli.arguments import ask_about
from rota.cli.options import GivenTerminal, JobArgument, JsonOption, value
from rota.cli.output import Terminal
from rota.cli.place import NOWHERE, Place, Target, find_target
from rota.clock.protocol import keeps_real_time
from rota.escape import escape
from rota.jobs import normalize_job_id
from rota.ops.explain import explain_job
from rota.ops.explain_at import explain_job_at
from rota.runtime.wiring import open_clock, open_store

AtOption = Annotated[
    str | None,
    value(
        "INSTANT",
        "Whether it, or its series, ran then or will: an ISO 8601 instant; without an offset a "
        "time on the clock of its series. Default: how it stands now.",
    ),
]


def why(
    job_id: JobArgument,
    /,
    *,
    at: AtOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Print why a job is in its state, and what happens next."""
    question = ask_about(at)
    target = find_target(place)
    if normalize_job_id(job_id) is None:
        from rota.cli.connection import find_job  # noqa: PLC0415 - loads the client and the server

        job_id = find_job(terminal, place, job_id)
    if target.is_server:
        answer = _ask_server(terminal, place, job_id, question)
    else:
        answer = asyncio.run(_explain(terminal, target, job_id, question))
    if as_json:
        terminal.print_document(answer)
        return
    terminal.print_text(escape(answer["sentence"]), "bold")
    for reason in answer["reasons"]:
        terminal.print_item(escape(reason["text"]))


def _ask_server(terminal: Terminal, place: Place, job_id: str, question: dict[str, str]) -> Any:
    from rota.cli.connection import converse  # noqa: PLC0415 - loads the client and the server
    from rota.client.client import path_of  # noqa: PLC0415 - as above

    path = path_of("jobs", job_id, "why")
    return converse(terminal, place, lambda client: client.get(path, question))


async def _explain(
    terminal: Terminal, target: Target, job_id: str, question: dict[str, str]
) -> dict[str, Any]:
    target.require()
    moment = next(map(datetime.fromisoformat, question.values()), None)
    async with await open_store(target.url) as store, open_clock(store) as store_clock:
        clock = store_clock if keeps_real_time(terminal.clock) else terminal.clock
        job = (store, clock, target.tenant, normalize_job_id(job_id) or job_id)
        explaining = explain_job(*job) if moment is None else explain_job_at(*job, moment)
        answer: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(await explaining))
    return answer
