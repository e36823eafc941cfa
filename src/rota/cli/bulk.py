"""``rota jobs bulk``: creates many jobs from a file, or acts on many by filter.

A file holds a list of jobs, an object with the list ``jobs``, or a job on each line. It is read
piece by piece, however large it is.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from json import JSONDecodeError, JSONDecoder
from typing import Annotated, Any, BinaryIO, Literal

from cyclopts import App, Parameter
from rich.prompt import Confirm

from rota.cli.job_tables import job_row
from rota.cli.options import (
    DryRunOption,
    OfKindOption,
    OfQueueOption,
    StateOption,
    WhyOption,
    YesOption,
    find_size,
    join_query,
    open_input,
    value,
)
from rota.cli.output import Terminal, Viewer, count_of, print_table
from rota.cli.progress import Bars
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession
from rota.client import Client
from rota.errors import InvalidInputError, invalid

PIECE = 1 << 20
LONGEST_JOB = 64 << 20
"""Bytes of one job at most. What is longer is not a list of jobs."""

_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_HEAD = 64
_LONGEST_WORD = 16
_OBJECT_OF_JOBS = re.compile(r'\{\s*"jobs"\s*:\s*\[')


class JobFile:
    """The jobs of a file. ``size`` is its length in bytes, None if that is not known."""

    def __init__(self, file: BinaryIO, size: int | None) -> None:
        self._file = file
        self.size = size
        self.read_count = 0
        """Bytes that have been read so far."""
        self._text, self._place = "", 0
        self._is_at_end = False
        self._decoder = JSONDecoder()
        self._rest = b""

    def read(self) -> Iterator[Any]:
        """One job after the other. Raises InvalidInputError where the file is not JSON."""
        while len(self._text) < _LONGEST_HEAD and not self._is_at_end:
            self._fill()
        self._skip()
        found = _OBJECT_OF_JOBS.match(self._text, self._place)
        if found is not None:
            self._place = found.end()
            yield from self._read_list("]")
            self._expect("}")
        elif self._peek() == "[":
            self._place += 1
            yield from self._read_list("]")
        else:
            while self._peek():
                yield self._decode()
            return
        if self._peek():
            raise self._refuse("is not JSON: something follows its list of jobs")

    def _read_list(self, end: str) -> Iterator[Any]:
        if self._peek() == end:
            self._place += 1
            return
        while True:
            yield self._decode()
            following = self._peek()
            self._place += 1
            if following == end:
                return
            if following != ",":
                self._place -= 1
                raise self._refuse('is not JSON: "," or "]" is missing after a job')

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._refuse(f'is not JSON: "{character}" is missing at its end')
        self._place += 1

    def _peek(self) -> str:
        """The next character that is not a space; empty at the end."""
        self._skip()
        while self._place == len(self._text) and not self._is_at_end:
            self._fill()
            self._skip()
        return self._text[self._place : self._place + 1]

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._place)
        self._place = found.end() if found else self._place

    def _decode(self) -> Any:
        self._peek()
        while True:
            try:
                job, end = self._decoder.raw_decode(self._text, self._place)
            except JSONDecodeError as error:
                if self._is_at_end or not self._may_go_on(error):
                    raise self._refuse(f"is not JSON: {error.msg}") from error
            except RecursionError as error:
                raise self._refuse("is not JSON: it is nested too deeply") from error
            else:
                if end < len(self._text) or self._is_at_end:  # else a number may go on
                    self._place = end
                    return job
            if len(self._text) - self._place > LONGEST_JOB:
                raise self._refuse(f"has a job of more than {LONGEST_JOB >> 20} MiB")
            self._fill()

    def _may_go_on(self, error: JSONDecodeError) -> bool:
        """Whether it is the end of the text that is wrong, and there is more to read."""
        return error.msg.startswith("Unterminated") or error.pos + _LONGEST_WORD > len(self._text)

    def _fill(self) -> None:
        """Read on: twice as much as the job that is not complete, so that each is read seldom."""
        piece = self._file.read(max(PIECE, len(self._text) - self._place))
        self.read_count += len(piece)
        self._is_at_end = not piece
        content, self._rest = self._rest + piece, b""
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            if self._is_at_end or len(content) - error.start > 3:
                raise self._refuse("is not UTF-8") from error
            text, self._rest = content[: error.start].decode("utf-8"), content[error.start :]
        self._text, self._place = self._text[self._place :] + text, 0

    def _refuse(self, reason: str) -> InvalidInputError:
        where = f"{reason} (near byte {max(0, self.read_count - len(self._text) + self._place)})"
        return InvalidInputError(f"FILE {where}", {"field": "FILE", "reason": reason})


def read_jobs(file: JobFile) -> Iterator[dict[str, Any]]:
    """The jobs of a file. Raises InvalidInputError if it has none, or holds something else."""
    refusal = invalid(
        "FILE", 'must hold a list of jobs, an object with a list "jobs", or a job on each line'
    )
    is_empty = True
    for job in file.read():
        if not isinstance(job, dict) or (is_empty and not {"name", "kind"} & job.keys()):
            raise refusal
        is_empty = False
        yield job
    if is_empty:
        raise refusal


@contextmanager
def open_jobs(name: str) -> Iterator[JobFile]:
    """The file of that name; ``-`` is standard input."""
    with open_input(name) as file:
        yield JobFile(file, find_size(file))


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
    print_table(out, [job_row(it, viewer, out) for it in plan["sample"]])
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
