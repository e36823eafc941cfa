"""``rota dlq`` and ``rota errors``: jobs without attempts left, and failures in groups."""

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.job_tables import job_facts, letter_row, print_attempts
from rota.cli.options import (
    CascadeOption,
    DryRunOption,
    JobArgument,
    LimitOption,
    OfKindOption,
    OfQueueOption,
    WhyOption,
    check_argument,
    flag,
    value,
)
from rota.cli.output import Row, Viewer, count_of, describe_replacements, print_facts, show_text
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession, path_of
from rota.client import Client
from rota.errors import InvalidInputError
from rota.escape import escape

letters = App(name="dlq")

LetterArguments = Annotated[
    list[str],
    Parameter(
        metavar="ID",
        negative="",
        show_default=False,
        validator=check_argument,
        help="Ids of dead letters.",
    ),
]


@Parameter(name="*", group="Which dead letters")
@dataclass(frozen=True)
class Which:
    """The filters; a dead letter must match all of them."""

    kind: OfKindOption = None
    queue: OfQueueOption = None
    error_contains: Annotated[
        str | None, value("TEXT", "Only with this text in the last error.", name="--error")
    ] = None
    with_discarded: Annotated[bool, flag("Also jobs that their handler discarded.")] = False


@letters.command(name="list")
def list_letters(
    *,
    which: Which = Which(),
    with_retried: Annotated[bool, flag("Also those that were retried already.")] = False,
    limit: LimitOption = 20,
    session: ZonedSession = LOCALLY,
) -> None:
    """List dead letters, the newest first, with what went wrong last.

    Try:

        rota dlq list
        rota dlq list --kind http.request --error timeout --json
    """
    query = {**vars(which), "with_retried": with_retried}
    listed = session.collect("dead-letters", query=query, limit=limit)
    session.print_items(listed, letter_row, noun="dead letter")


@letters.command(name="show")
def show(job_id: JobArgument, /, *, session: ZonedSession = LOCALLY) -> None:
    """Show a dead letter with all its attempts.

    Try:

        rota dlq show 01890a5d-ac96-774b-bcce-b302099a8057
    """
    job_id = session.find_job(job_id)
    letter = session.get("dead-letters", job_id)
    if session.is_done(letter):
        return
    viewer, job = session.viewer, letter["job"]
    print_facts(session.terminal.out, ("Dead letter", escape(job["id"])), job_facts(job, viewer))
    print_attempts(session.terminal, letter["attempts"], viewer)


@letters.command(name="retry")
def retry(
    job_ids: LetterArguments | None = None,
    /,
    *,
    all_of_them: Annotated[
        bool, flag("All that match the filters, up to 1,000.", name="--all")
    ] = False,
    which: Which = Which(),
    cascade: CascadeOption = False,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Retry dead letters: create a new job for each. None is retried twice.

    Try:

        rota dlq retry 01890a5d-ac96-774b-bcce-b302099a8057
        rota dlq retry --all --kind http.request --error timeout --dry-run
        rota dlq retry --all --cascade --why "the mail server is back"
    """
    if bool(job_ids) == all_of_them:
        raise InvalidInputError("give either the ids of dead letters or --all", {"field": "ID"})
    if job_ids and dry_run:
        reason = "--dry-run needs --all: without it, exactly the given dead letters are retried"
        raise InvalidInputError(reason, {"field": "--dry-run"})
    filters = {**vars(which), "cascade": cascade}
    letter_ids = [session.find_job(each) for each in job_ids or ()]

    async def talk(client: Client) -> Any:
        if letter_ids:
            return await _retry_each(client, letter_ids, why, cascade=cascade)
        plan = await client.post("/dead-letters/retry", filters)
        return plan if dry_run else await _carry_out(client, plan, why)

    answer = session.talk(talk)
    session.print_done(answer, *_describe(answer))


@letters.command(name="discard")
def discard(
    job_ids: LetterArguments, /, *, why: WhyOption = None, session: TenantSession = HERE
) -> None:
    """Delete dead letters for good; the audit log keeps their errors.

    Try:

        rota dlq discard 01890a5d-ac96-774b-bcce-b302099a8057 --why "sent by hand"
    """
    letter_ids = [session.find_job(each) for each in job_ids]

    async def talk(client: Client) -> int:
        count = 0
        for job_id in letter_ids:
            path = path_of("dead-letters", job_id)
            count += (await client.ask("DELETE", path, body={"why": why}))["discarded_count"]
        return count

    count = session.talk(talk)
    session.print_done({"discarded_count": count}, f"{count} discarded.")


async def _retry_each(
    client: Client, job_ids: list[str], why: str | None, *, cascade: bool
) -> dict[str, Any]:
    replacements: dict[str, str] = {}
    earlier_ids: list[str] = []
    for job_id in job_ids:
        path, query = path_of("jobs", job_id, "retry"), {"cascade": cascade}
        answer = await client.post(path, {"why": why}, query)
        replacements |= answer["replacements"]
        earlier_ids += answer["earlier_ids"]
    return {"is_dry_run": False, "replacements": replacements, "earlier_ids": earlier_ids}


async def _carry_out(client: Client, plan: dict[str, Any], why: str | None) -> Any:
    """Retry what a dry run has named, if it is anything."""
    if not plan["job_ids"]:
        return plan
    chosen = {"job_ids": plan["job_ids"], "dependent_ids": plan["dependent_ids"]}
    return await client.post("/dead-letters/retry", {"dry_run": False, "why": why, **chosen})


def _describe(answer: dict[str, Any]) -> list[str]:
    if not answer["is_dry_run"]:
        return [*describe_replacements(answer), _count(answer)]
    if not answer["job_ids"]:
        return ["No dead letter matches: nothing to retry."]
    dead, blocked = len(answer["job_ids"]), len(answer["dependent_ids"])
    more = "; there are more" if answer["has_more"] else ""
    freed = f", and {blocked} that {'was' if blocked == 1 else 'were'} blocked" if blocked else ""
    return [f"{count_of(dead, 'dead letter')} would be retried{freed}{more}."]


def _count(answer: dict[str, Any]) -> str:
    earlier = len(answer["earlier_ids"])
    text = f"{len(answer['replacements']) - earlier} retried"
    return f"{text}, {earlier} had been already." if earlier else f"{text}."


groups = App(name="errors")


GroupArgument = Annotated[str, Parameter(metavar="GROUP", help="The id of an error group.")]


@groups.command(name="list")
def list_groups(
    *,
    kind: Annotated[str | None, value("NAME", "Only errors of this kind.")] = None,
    session: ZonedSession = LOCALLY,
) -> None:
    """List failures in groups: the same kind, exception and place.

    Try:

        rota errors list
        rota errors list --kind http.request
    """
    listed = session.list_all("errors", query={"kind": kind})
    session.print_items(listed, group_row, noun="error group")


def group_row(group: dict[str, Any], viewer: Viewer) -> Row:
    place = f" at {show_text(group['place'], 80)}" if group["place"] else ""
    cells = {
        "Id": escape(group["id"]),
        "Attempts": str(group["count"]),
        "Dead": str(group["dead_count"]),
        "Last seen": viewer.relative(group["last_at"]),
        "Kind": show_text(group["kind"], 40),
        "Error": f"{show_text(group['name'], 60)}{place}",
    }
    return cells, "red" if group["dead_count"] else ""


@groups.command(name="show")
def show_group(group_id: GroupArgument, /, *, session: ZonedSession = LOCALLY) -> None:
    """Show one error group: when it was seen, and its latest job.

    Try:

        rota errors show 3f2a9c1d5e6b7a80
    """
    found = session.get("errors", group_id)
    if session.is_done(found):
        return
    viewer = session.viewer
    more = " or more" if found["has_more_letters"] else ""
    facts = [
        ("kind", show_text(found["kind"])),
        ("place", show_text(found["place"]) or "unknown"),
        ("message", show_text(found["message"], 300)),
        ("attempts", f"{found['count']}, {found['dead_count']} the last of their job"),
        ("first seen", viewer.show(found["first_at"])),
        ("last seen", viewer.show(found["last_at"])),
        ("latest job", escape(found["job_id"])),
        ("dead letters", f"{len(found['letter_ids'])}{more}"),
    ]
    print_facts(session.terminal.out, ("Error", show_text(found["name"])), facts)


@groups.command(name="retry")
def retry_group(
    group_id: GroupArgument,
    /,
    *,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Retry the dead letters of a group, up to 1,000.

    Try:

        rota errors retry 3f2a9c1d5e6b7a80 --why "fixed in 2.3.1"
    """
    _act(session, (group_id, "retry"), dry_run=dry_run, why=why)


@groups.command(name="discard")
def discard_group(
    group_id: GroupArgument,
    /,
    *,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Delete the dead letters of a group for good, up to 1,000.

    The audit log keeps their errors. Try:

        rota errors discard 3f2a9c1d5e6b7a80 --why "test data"
    """
    _act(session, (group_id, "discard"), dry_run=dry_run, why=why)


def _act(session: TenantSession, steps: tuple[str, str], *, dry_run: bool, why: str | None) -> None:
    answer = session.post("errors", *steps, body={"dry_run": dry_run, "why": why})
    word = "retried" if steps[1] == "retry" else "discarded"
    count, would = answer["count"], " would be" if answer["is_dry_run"] else ""
    text = f"{count_of(count, 'dead letter')}{would} {word}"
    if answer["kept_count"]:
        text += f"; {answer['kept_count']} kept, because other jobs depend on them"
    session.print_done(answer, f"{text}{'; there are more' if answer['has_more'] else ''}.")
