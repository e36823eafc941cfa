"""``rota jobs``: create, list, show and change jobs."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.auth.masking import mask_secrets
from rota.cli.commands import BULK
from rota.cli.job_tables import (
    describe_progress,
    job_facts,
    job_row,
    print_attempts,
    read_state,
)
from rota.cli.options import (
    CascadeOption,
    JobArgument,
    LabelOption,
    LimitOption,
    NewJob,
    NewPayloadOption,
    NotifiesOption,
    OfKindOption,
    OfQueueOption,
    StateOption,
    WhyOption,
    check_ids,
    flag,
    format_instant,
    given,
    join_query,
    number,
    read_duration,
    read_json,
    read_moment,
    value,
)
from rota.cli.output import describe_replacements, print_facts, show_text
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession, path_of
from rota.client import Client
from rota.errors import InvalidInputError, invalid
from rota.escape import escape, escape_json


@Parameter(name="*")
@dataclass(frozen=True)
class Wanted(NewJob):
    """The same for a job that runs once: when, after which others and how often it is tried."""

    run_at: Annotated[
        str | None, value("INSTANT", "When it may start; without an offset, wall time.")
    ] = None
    run_in: Annotated[
        str | None,
        value("DURATION", "Start this long from now, such as 90s or 1h30m.", name="--in"),
    ] = None
    after: Annotated[
        list[str] | None,
        Parameter(
            metavar="ID",
            negative="",
            show_default=False,
            validator=check_ids("--after"),
            help="A job to wait for, by its id or the beginning. Repeatable.",
        ),
    ] = None
    max_attempts: Annotated[int | None, number(1, 10, "How often to try it at most.")] = None
    auto_remove: Annotated[bool, flag("Delete the job once it has succeeded.")] = False


def create(
    name: Annotated[str, value("NAME", "What people call the job.")],
    /,
    *,
    wanted: Wanted = Wanted(),
    session: ZonedSession = LOCALLY,
) -> None:
    """Create a job.

    For a recurring job, use rota series create. Try:

        rota jobs create hello --kind log.message --payload '{"message": "hi"}'
        rota jobs create report --queue mail --in 90s --max-attempts 5
        rota jobs create close-books --run-at 2027-03-31T18:00 --payload @books.json
    """
    tries = wanted.max_attempts
    body = wanted.to_body(name) | given(
        run_at=_read_start(wanted, session),
        retry_policy=None if tries is None else {"max_attempts": tries},
        auto_remove=wanted.auto_remove,
    )
    if wanted.after:
        body["dependencies"] = [session.find_job(it, "--after") for it in wanted.after]
    job, is_new = session.create_job(body)
    viewer = session.viewer
    when = f"{read_state(job, viewer.now)}, run at {viewer.show(job['run_at'])}"
    became = "Created" if is_new else "There already is"
    session.print_done(job, f"{became} {job['id']}: {when}.")


def _read_start(wanted: Wanted, session: ZonedSession) -> str | None:
    if wanted.run_at is not None and wanted.run_in is not None:
        raise invalid("--run-at", "and --in are both given: one of them is enough")
    if wanted.run_in is not None:
        return format_instant(session.viewer.now + read_duration(wanted.run_in, "--in"))
    return read_moment(wanted.run_at, session.local.zone, "--run-at")


app = App(name="jobs")
app.command(create, name="create")
app.command("rota.cli.bulk:app", name="bulk", help=BULK)


Priority = Annotated[int | None, number(1, 10, "1 to 10.")]
Moment = Annotated[str | None, value("INSTANT", "ISO 8601; without an offset, wall time.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Changed:
    """The values of a job that change."""

    name: Annotated[str | None, value("TEXT", "What people call it.")] = None
    queue: Annotated[str | None, value("NAME", "Its queue.")] = None
    payload: NewPayloadOption = None
    priority: Priority = None
    run_at: Moment = None


@app.command(name="list")
def list_jobs(
    *,
    queue: OfQueueOption = None,
    state: StateOption = None,
    search: Annotated[
        str | None,
        value("TEXT", "Only matches, such as 'error:Timeout created:2h.. priority:7..'."),
    ] = None,
    kind: OfKindOption = None,
    match: Annotated[str | None, value("TEXT", "Only jobs that contain this text.")] = None,
    priority_min: Priority = None,
    priority_max: Priority = None,
    created_after: Moment = None,
    created_before: Moment = None,
    cursor: Annotated[
        str | None, value("TEXT", "The cursor at which an earlier list ended.")
    ] = None,
    limit: LimitOption = 20,
    session: ZonedSession = LOCALLY,
) -> None:
    """List jobs, the newest first.

    Try:

        rota jobs list
        rota jobs list --state failed --queue mail
        rota jobs list --search 'error:Timeout payload.order=7'
        rota jobs list --search 'created:2h.. priority:7..'
        rota jobs list --match invoice-4711 --limit 200 --json
        rota jobs list --url https://rota.example --token-file ~/.rota-token
    """
    local = session.local.zone
    query = given(
        queue=queue,
        q=join_query(search, state),
        kind=kind,
        text=match,
        priority_min=priority_min,
        priority_max=priority_max,
        created_after=read_moment(created_after, local, "--created-after"),
        created_before=read_moment(created_before, local, "--created-before"),
        cursor=cursor,
    )
    steps = ("jobs", "search") if query.keys() & {"q", "kind", "text"} else ("jobs",)
    listed = session.collect(*steps, query=query, limit=limit)
    out = session.terminal.out
    session.print_items(listed, partial(job_row, console=out))


@app.command(name="show")
def show(job_id: JobArgument, /, *, session: ZonedSession = LOCALLY) -> None:
    """Show a job: progress, result, every attempt, and the last traceback.

    Try:

        rota jobs show 01890a5d-ac96-774b-bcce-b302099a8057
    """
    job_id = session.find_job(job_id)

    async def ask(client: Client) -> tuple[Any, Any, Any]:
        job = await client.get(path_of("jobs", job_id))
        attempts = (await client.get(path_of("jobs", job_id, "attempts")))["items"]
        return job, attempts, await client.get(path_of("jobs", job_id, "result"))

    job, attempts, outcome = session.talk(ask)
    result, progress = outcome["result"], outcome.get("progress")
    if session.is_done({**job, "attempts": attempts, "result": result, "progress": progress}):
        return
    viewer = session.viewer
    facts = list(job_facts(job, viewer))
    if progress is not None:
        facts.append(("Progress", describe_progress(progress, viewer)))
    print_facts(session.terminal.out, ("Job", escape(job["id"])), facts)
    print_attempts(session.terminal, attempts, viewer)
    if result is not None:
        session.terminal.print_text(
            f"\nResult: {show_text(json.dumps(mask_secrets(result)), 4000)}"
        )
    failure = next((it for it in reversed(attempts) if it.get("traceback")), None)
    if failure is not None and job["status"] != "COMPLETED":
        session.terminal.print_text(f"\nTraceback of attempt {failure['number']}:")
        session.terminal.print_lines(failure["traceback"])


@app.command(name="result")
def result(
    job_id: JobArgument,
    /,
    *,
    wait: Annotated[int, number(0, 60, "Seconds to wait for its end, up to 60.")] = 0,
    session: TenantSession = HERE,
) -> bool:
    """Print what a job returned, as JSON.

    The exit status is 1 if the job failed or has not ended. Try:

        rota jobs result 01890a5d-ac96-774b-bcce-b302099a8057 --wait 30
    """
    job_id = session.find_job(job_id)
    answer = session.get("jobs", job_id, "result", query={"wait": wait})
    is_completed: bool = answer["status"] == "COMPLETED"
    if session.is_done(answer):
        pass
    elif is_completed:
        session.terminal.print_text(escape_json(json.dumps(answer["result"])))
    else:
        session.terminal.print_lines(answer["traceback"] or "")
        reason = answer["error"] if answer["has_ended"] else "the job has not ended yet"
        session.terminal.print_text(f"{answer['status']}: {show_text(reason, 1000)}")
    return is_completed


@app.command(name="update")
def update(
    job_id: JobArgument,
    /,
    *,
    changed: Changed = Changed(),
    notifies: NotifiesOption = None,
    label: LabelOption = None,
    session: ZonedSession = LOCALLY,
) -> None:
    """Change a job that has not ended. Fields that are not named stay as they are.

    Try:

        rota jobs update 01890a5d-ac96-774b-bcce-b302099a8057 --priority 10
    """
    job_id = session.find_job(job_id)
    body = _read_changes(changed, session) | given(notifies=notifies, label=label)
    if not body:
        message = "nothing changes: give --priority, --queue, --payload or another option"
        raise InvalidInputError(message, {"field": "--priority"})
    job = session.ask("PUT", "jobs", job_id, body=body)
    session.print_done(job, f"Changed {job['id']}.")


@app.command(name="delete")
def delete(job_id: JobArgument, /, *, session: TenantSession = HERE) -> None:
    """Delete a job that no other job depends on.

    Try:

        rota jobs delete 01890a5d-ac96-774b-bcce-b302099a8057
    """
    job_id = session.find_job(job_id)
    session.ask("DELETE", "jobs", job_id)
    session.print_done({"id": job_id, "deleted": True}, f"Deleted {job_id}.")


@app.command(name="cancel")
def cancel(
    job_id: JobArgument,
    /,
    *,
    only_this: Annotated[bool, flag("Cancel this occurrence only, not its series.")] = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Cancel a job, also a running one, and the series it belongs to.

    Try:

        rota jobs cancel 01890a5d-ac96-774b-bcce-b302099a8057 --why "sent twice"
    """
    job_id = session.find_job(job_id)
    query = {"ends_series": not only_this}
    job = session.post("jobs", job_id, "cancel", body={"why": why}, query=query)
    session.print_done(job, f"Cancelled {job_id}.")


@app.command(name="retry")
def retry(
    job_id: JobArgument,
    /,
    *,
    cascade: CascadeOption = False,
    changed: Changed = Changed(),
    why: WhyOption = None,
    session: ZonedSession = LOCALLY,
) -> None:
    """Retry a job that failed for good: create a new one, with other values if given.

    Try:

        rota jobs retry 01890a5d-ac96-774b-bcce-b302099a8057 --cascade
        rota jobs retry 01890a5d-ac96-774b-bcce-b302099a8057 --payload @a.json
    """
    job_id = session.find_job(job_id)
    body = {"why": why, "changes": _read_changes(changed, session)}
    answer = session.post("jobs", job_id, "retry", body=body, query={"cascade": cascade})
    session.print_done(answer, *(f"{it}." for it in describe_replacements(answer)))


@app.command(name="duplicate")
def duplicate(
    job_id: JobArgument,
    /,
    *,
    changed: Changed = Changed(),
    why: WhyOption = None,
    session: ZonedSession = LOCALLY,
) -> None:
    """Create a job like another one, in any state, with other values if given.

    Try:

        rota jobs duplicate 01890a5d-ac96-774b-bcce-b302099a8057 --priority 10
    """
    job_id = session.find_job(job_id)
    body = {"why": why, "changes": _read_changes(changed, session)}
    job = session.post("jobs", job_id, "duplicate", body=body)
    session.print_done(job, f"Created {job['id']}, a duplicate of {job_id}.")


def _read_changes(changed: Changed, session: ZonedSession) -> dict[str, Any]:
    changes, zone = given(**vars(changed)), session.local.zone
    if changed.payload is not None:
        changes["payload"] = read_json(changed.payload, "--payload")
    if changed.run_at is not None:
        changes["run_at"] = read_moment(changed.run_at, zone, "--run-at")
    return changes


@app.command(name="run-now")
def run_now(
    job_id: JobArgument, /, *, why: WhyOption = None, session: TenantSession = HERE
) -> None:
    """Make a job due now.

    Try:

        rota jobs run-now 01890a5d-ac96-774b-bcce-b302099a8057
    """
    job_id = session.find_job(job_id)
    job = session.post("jobs", job_id, "run-now", body={"why": why})
    session.print_done(job, f"Due now: {job_id}.")
