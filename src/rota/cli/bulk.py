"""``rota jobs bulk``: creates many jobs from a file, or acts on many by filter."""

import sys
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter
from rich.prompt import Confirm

from rota.cli.job_files import JobFile, open_jobs, read_jobs
from rota.cli.job_tables import job_columns, job_row
from rota.cli.options import (
    DryRunOption,
    OfKindOption,
    OfQueueOption,
    StateOption,
    WhyOption,
    YesOption,
    join_query,
    value,
)
from rota.cli.output import Terminal, Viewer, count_of, print_table
from rota.cli.progress import Bars
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession
from rota.client import Client
from rota.errors import invalid

MOST_AT_ONCE = 1000
WORDS = {
    "cancel": "cancelled",
    "retry": "retried",
    "restore": "restored",
    "run_now": "due now",
    "delete": "deleted",
}

app = App(name="bulk")

Action = Literal["cancel", "retry", "restore", "run-now", "delete"]


@Parameter(name="*", group="Which jobs")
@dataclass(frozen=True)
class Which:
    """The filters; a job must match all of them."""

    queue: OfQueueOption = None
    state: StateOption = None
    search: Annotated[str | None, value("TEXT", "Only matches, as in jobs list --search.")] = None
    kind: OfKindOption = None
    match: Annotated[
        str | None, value("TEXT", "Only jobs with this text in their name or kind.")
    ] = None


@app.command(name="create")
def create(
    file: Annotated[
        str, Parameter(allow_leading_hyphen=True, metavar="FILE", help="JSON, or - for input.")
    ],
    /,
    *,
    session: TenantSession = HERE,
) -> None:
    """Create the jobs that a file lists: all of each thousand, or none.

    The file holds a list of objects, an object with the list "jobs", or an
    object on each line, each as POST /api/v1/jobs takes it. It may be of any
    size: it is read as jobs are created. Jobs of the same thousand may depend
    on each other by their "ref". Try:

        rota jobs bulk create jobs.json
        rota jobs bulk create jobs.jsonl
        echo '[{"name": "hello", "queue": "default"}]' | rota jobs bulk create -
    """
    with open_jobs(file) as jobs:
        made = session.talk(lambda it: _create_all(it, jobs, session.terminal), makes=True)
    text = f"{made['created_count']} created, {made['existing_count']} were there already."
    session.print_done(made, text)


@app.command(name="act")
def act(
    action: Annotated[Action, Parameter(help="What to do to the jobs.")],
    /,
    *,
    which: Which = Which(),
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    why: WhyOption = None,
    session: ZonedSession = LOCALLY,
) -> None:
    """Act on all jobs that match the filters, after showing them.

    It acts on the jobs that it showed, not on later ones. Try:

        rota jobs bulk act cancel --queue mail --state ready --dry-run
        rota jobs bulk act restore --state cancelled --queue mail
        rota jobs bulk act retry --state failed --kind report.send --yes
    """
    order = {
        "action": action.replace("-", "_"),
        "queue": which.queue,
        "q": join_query(which.search, which.state),
        "kind": which.kind,
        "text": which.match,
    }
    viewer = session.viewer

    async def talk(client: Client) -> Any:
        plan = await client.post("/jobs/bulk-actions", order)
        if not session.as_json:
            _show_plan(session.terminal, plan, viewer)
        if dry_run or not plan["count"]:
            return plan
        _confirm(session.terminal, f"{action} {count_of(plan['count'], 'job')}?", is_sure=yes)
        carry_out = {"dry_run": False, "plan_id": plan["plan_id"], "why": why}
        return await client.post("/jobs/bulk-actions", carry_out)

    answer = session.talk(talk)
    if not session.is_done(answer) and not answer["is_dry_run"]:
        _show_result(session.terminal, answer)


async def _create_all(client: Client, file: JobFile, terminal: Terminal) -> dict[str, Any]:
    made: dict[str, Any] = {"created_count": 0, "existing_count": 0, "ids": []}
    jobs = read_jobs(file)
    with Bars(terminal.err, is_transient=True) as bars:
        bar = bars.find_bar("Creating", file.size)
        while chunk := list(islice(jobs, MOST_AT_ONCE)):
            answer = await client.post("/jobs/bulk", {"jobs": chunk})
            made["created_count"] += answer["created_count"]
            made["existing_count"] += answer["existing_count"]
            made["ids"] += [job["id"] for job in answer["items"]]
            bars.update(bar, completed=file.read_count)
    return made


def _show_plan(terminal: Terminal, plan: dict[str, Any], viewer: Viewer) -> None:
    out = terminal.out
    print_table(out, job_columns(out), [job_row(it, viewer, out) for it in plan["sample"]])
    more = plan["count"] - len(plan["sample"])
    if more > 0:
        terminal.print_text(f"... and {more} more", "dim")
    passed = plan["passed_over_count"]
    states = ", ".join(f"{count} {state}" for state, count in plan["passed_over"].items())
    rest = f"; the action does not apply to {passed} more: {states}" if passed else ""
    jobs = count_of(plan["count"], "job")
    terminal.print_text(f"{jobs} would be {WORDS[plan['action']]}{rest}", "bold")
    if plan["has_more"]:
        terminal.print_text("There are more than fit in one go: do it again afterwards.", "yellow")


def _show_result(terminal: Terminal, answer: dict[str, Any]) -> None:
    count, skipped = answer["done_count"], answer["skipped_count"]
    rest = f"; {skipped} had moved on" if skipped else ""
    terminal.print_text(f"{count_of(count, 'job')} {WORDS[answer['action']]}{rest}.", "bold")


def _confirm(terminal: Terminal, question: str, *, is_sure: bool) -> None:
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise invalid("--yes", "is needed when the input is not a terminal")
    if not Confirm.ask(question, console=terminal.err, default=False):
        raise KeyboardInterrupt
