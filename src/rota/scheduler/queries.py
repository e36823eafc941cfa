"""Questions about tasks: what initialize() would do, why a task runs, and what a store holds.

Explanations use the functions that decide, and what is stored; no log is searched. A task's record
has its last start, success and failure. About older runs an explanation says only whether they were
due.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Literal, NamedTuple

import msgspec

from rota.clock.protocol import Clock
from rota.errors import CronCalculationError, InvalidCronExpressionError, TaskNotRegisteredError
from rota.scheduler.policy import SchedulerContext, SchedulerSettings
from rota.scheduler.presence import Presence
from rota.scheduler.reconciliation import (
    FieldChange,
    Moment,
    Reconciliation,
    Standing,
    TaskDecision,
    decide_reconciliation,
)
from rota.scheduler.registration import AcceptedTask
from rota.scheduler.storage import REQUESTS, TASKS, BrokenRecord, find_tasks, scan_tasks
from rota.scheduler.task import TaskState, decide_start
from rota.stores.protocol import DocumentStore, DocumentWrite
from rota.triggers.cron import Cron, parse_stored_cron
from rota.triggers.zone import Fold, instants_of, to_utc, wall_time

OCCURRENCES_SHOWN = 5
END_OF_TIME = datetime.max.replace(tzinfo=UTC)
_SILENT_FOR = SchedulerSettings().peer_silent_for


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task: its standing, and its next occurrences before and after.

    ``standing`` is new, kept, changed or removed. ``is_interrupted``: it was running when its
    instance died, and would start at once.
    """

    name: str
    standing: str
    is_interrupted: bool = False
    changes: tuple[FieldChange, ...] = ()
    occurrences_before: tuple[datetime, ...] = ()
    occurrences_after: tuple[datetime, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """Every registered or stored task by name, as of ``made_at``."""

    made_at: datetime
    tasks: tuple[PlannedTask, ...]
    unreadable: tuple[str, ...] = ()

    @property
    def new(self) -> list[PlannedTask]:
        return self._standing("new")

    @property
    def kept(self) -> list[PlannedTask]:
        return self._standing("kept")

    @property
    def changed(self) -> list[PlannedTask]:
        return self._standing("changed")

    @property
    def removed(self) -> list[PlannedTask]:
        return self._standing("removed")

    @property
    def interrupted(self) -> list[PlannedTask]:
        return [task for task in self.tasks if task.is_interrupted]

    @property
    def has_changes(self) -> bool:
        return bool(self.unreadable) or any(task.standing != "kept" for task in self.tasks)

    def _standing(self, standing: str) -> list[PlannedTask]:
        return [task for task in self.tasks if task.standing == standing]


async def make_plan(context: SchedulerContext, accepted: Sequence[AcceptedTask]) -> Plan:
    """The decision that ``initialize`` would take now. Writes nothing."""
    now = context.clock.now()
    presence = Presence(context.store, context.clock, "", context.settings.peer_silent_for)
    moment = Moment(now, "", await presence.find_living())
    by_name = {task.name: task for task in accepted}
    decided = await decide_reconciliation(context, by_name, moment, presence.find_living)
    tasks = _list_tasks(context, decided, now)
    unreadable = tuple(sorted(record.name for record in decided.broken))
    return Plan(now, tuple(sorted(tasks, key=lambda task: task.name)), unreadable)


def _list_tasks(
    context: SchedulerContext, decided: Reconciliation, now: datetime
) -> list[PlannedTask]:
    @cache
    def upcoming(expression: str) -> tuple[datetime, ...]:
        return list_occurrences(context, expression, now)

    tasks = [
        PlannedTask(
            name=name,
            standing=decision.reconciled.standing.value,
            is_interrupted=decision.reconciled.is_interrupted,
            changes=decision.reconciled.changes,
            occurrences_before=_before(decision, upcoming),
            occurrences_after=upcoming(decision.accepted.cron.text),
        )
        for name, decision in decided.tasks.items()
    ]
    tasks.extend(
        PlannedTask(
            name=stored.name,
            standing="removed",
            occurrences_before=upcoming(stored.state.cron_expression),
        )
        for stored in decided.removed
    )
    return tasks


def _before(
    decision: TaskDecision, upcoming: Callable[[str], tuple[datetime, ...]]
) -> tuple[datetime, ...]:
    if decision.reconciled.standing is Standing.NEW:
        return ()
    before = decision.before or decision.reconciled.state
    return upcoming(before.cron_expression)


def list_occurrences(
    context: SchedulerContext, expression: str, now: datetime
) -> tuple[datetime, ...]:
    """The next few occurrences; none for text that is not a cron expression."""
    policy, zone = context.policy, context.zone
    try:
        cron = parse_stored_cron(expression, policy.dialect)
    except InvalidCronExpressionError:
        return ()
    return tuple(
        cron.between(now, END_OF_TIME, zone, limit=OCCURRENCES_SHOWN, fold=policy.repeated_hour)
    )


Answer = Literal["ran", "running", "due", "will run", "will not run", "did not run", "unknown"]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in one word, and the reasons in sentences, most important first."""

    name: str
    at: datetime | None
    answer: Answer
    reasons: tuple[str, ...]
    next_at: datetime | None = None

    def __str__(self) -> str:
        return "\n".join(self.reasons)


class Question(NamedTuple):
    """Everything that an explanation is computed from."""

    state: TaskState
    cron: Cron
    zone: tzinfo
    fold: Fold
    now: datetime
    living: frozenset[str]

    def show(self, instant: datetime) -> str:
        local = instant.astimezone(self.zone)
        return f"{local:%a %Y-%m-%d %H:%M:%S %Z}"

    def last_due_at(self, instant: datetime) -> datetime | None:
        try:
            return self.cron.previous_at(instant, self.zone, fold=self.fold)
        except CronCalculationError:
            return None

    def next_due_at(self, instant: datetime) -> datetime | None:
        try:
            return self.cron.next_after(instant, self.zone, fold=self.fold)
        except CronCalculationError:
            return None

    def matches(self, instant: datetime) -> bool:
        try:
            return self.cron.matches(instant, self.zone, fold=self.fold)
        except CronCalculationError:
            return False

    @property
    def is_interrupted(self) -> bool:
        return self.state.running and self.state.scheduler_identifier not in self.living


async def explain_task(context: SchedulerContext, name: str, at: datetime | None) -> Explanation:
    """Explain a stored task. A naive ``at`` is wall time in the scheduler's zone."""
    question = await _ask(context, name)
    if at is None:
        return _explain_now(question)
    if at.tzinfo is None:
        shown = instants_of(at, question.zone, gap="skip", fold="both")
        if not shown:
            return _explain_gap(question, at)
        at = shown[0]
    return _explain_instant(question, to_utc(at, "at"))


async def _ask(context: SchedulerContext, name: str) -> Question:
    found = (await find_tasks(context.store, [name])).get(name)
    if found is None:
        raise TaskNotRegisteredError(name)
    if isinstance(found, BrokenRecord):
        raise found.error
    state, policy = found.state, context.policy
    silent_for = context.settings.peer_silent_for
    cron = parse_stored_cron(state.cron_expression, policy.dialect)
    return Question(
        state=state,
        cron=cron,
        zone=cron.zone or context.zone,
        fold=policy.repeated_hour,
        now=context.clock.now(),
        living=await find_living(context.store, context.clock, silent_for),
    )


def _explain_now(question: Question) -> Explanation:
    state, now = question.state, question.now
    start = decide_start(
        state, question.last_due_at(now), now, is_interrupted=question.is_interrupted
    )
    next_at = question.next_due_at(now)
    answer: Answer = "will run"
    reasons = []
    if start is not None:
        answer = "due"
        answered = question.show(start.scheduled_at)
        reasons.append(f"It is due now ({start.reason.value}): it has yet to answer {answered}.")
    elif state.running:
        answer = "running"
        since = question.show(state.last_attempt_at or now)
        reasons.append(f"It has been running since {since}, so it is not started again.")
    reasons.extend(_describe_history(question))
    if next_at is None:
        reasons.append("The expression has no further occurrence.")
    else:
        reasons.append(f"Its next occurrence is {question.show(next_at)}.")
    return Explanation(
        name=state.name, at=None, answer=answer, reasons=tuple(reasons), next_at=next_at
    )


def _explain_instant(question: Question, at: datetime) -> Explanation:
    answer, reasons = _judge(question, at)
    reasons.extend(_describe_showing(question, at))
    return Explanation(
        name=question.state.name,
        at=at,
        answer=answer,
        reasons=tuple(reasons),
        next_at=question.next_due_at(at),
    )


def _judge(question: Question, at: datetime) -> tuple[Answer, list[str]]:
    state, attempt_at = question.state, question.state.last_attempt_at
    minute = at.replace(second=0, microsecond=0)
    if attempt_at is not None and attempt_at.replace(second=0, microsecond=0) == minute:
        reason = state.last_reason or "an unrecorded reason"
        return "ran", [f"It started at {question.show(attempt_at)}: {reason}."]
    if (
        state.retry_due_at is not None
        and state.retry_due_at.replace(second=0, microsecond=0) == minute
    ):
        return "will run", [f"A retry is pending until {question.show(state.retry_due_at)}."]
    if not question.matches(at):
        return _judge_off_schedule(question, at)
    if at > question.now:
        return "will run", [f'It matches "{state.cron_expression}" in {question.zone}.']
    return _judge_past_occurrence(question, at)


def _judge_off_schedule(question: Question, at: datetime) -> tuple[Answer, list[str]]:
    answer: Answer = "will not run" if at > question.now else "did not run"
    expression = question.state.cron_expression
    reasons = [f'{question.show(at)} does not match "{expression}" in {question.zone}.']
    before, after = question.last_due_at(at), question.next_due_at(at)
    if before is not None:
        reasons.append(f"The occurrence before it is {question.show(before)}.")
    if after is not None:
        reasons.append(f"The occurrence after it is {question.show(after)}.")
    return answer, reasons


def _judge_past_occurrence(question: Question, at: datetime) -> tuple[Answer, list[str]]:
    state = question.state
    answered_until = state.answered_until
    if state.registered_at is not None and at < state.registered_at.replace(
        second=0, microsecond=0
    ):
        registered = question.show(state.registered_at)
        return "did not run", [f"It was due, but the task was registered later, at {registered}."]
    if answered_until is not None and at <= answered_until:
        later = question.show(answered_until)
        return "unknown", [
            f"It was due then. Its last start is {later}; the record does not reach further back."
        ]
    if question.is_interrupted or not state.running:
        return "due", [
            "It was due then and has not started since; it starts once a scheduler runs."
        ]
    since = question.show(state.last_attempt_at or question.now)
    return "due", [f"It was due then, but has been running since {since}; it starts after that."]


def _describe_history(question: Question) -> list[str]:
    state = question.state
    reasons = []
    if state.pending_retry_until is not None and state.retry_due_at is not None:
        until = question.show(state.retry_due_at)
        reasons.append(f"Its last run failed; it is tried again at {until}.")
    if state.last_attempt_at is None:
        reasons.append("It has not run yet.")
    elif not state.running:
        reason = state.last_reason or "an unrecorded reason"
        reasons.append(f"It last started at {question.show(state.last_attempt_at)}: {reason}.")
    if state.last_success_at is not None:
        reasons.append(f"It last succeeded at {question.show(state.last_success_at)}.")
    return reasons


def _describe_showing(question: Question, at: datetime) -> list[str]:
    """Mention it when the wall clock shows this minute twice."""
    wall = wall_time(at, question.zone).replace(second=0, microsecond=0)
    shown = instants_of(wall, question.zone, gap="skip", fold="both")
    if len(shown) < 2:
        return []
    rule = "both count" if question.fold == "both" else "only the first counts"
    return [f"The clocks go back: {wall:%H:%M} is shown twice, and {rule}."]


def _explain_gap(question: Question, wall: datetime) -> Explanation:
    matches = question.cron.matches(wall.replace(tzinfo=UTC), UTC)
    reasons = [f"{wall:%Y-%m-%d %H:%M} does not exist in {question.zone}: the clocks go forward."]
    if matches:
        reasons.append(
            f'It would match "{question.state.cron_expression}"; an occurrence in a skipped hour'
            " is skipped that day."
        )
    return Explanation(
        name=question.state.name,
        at=None,
        answer="will not run" if wall.replace(tzinfo=UTC) > question.now else "did not run",
        reasons=tuple(reasons),
        next_at=question.next_due_at(question.now),
    )


class TaskOverview(msgspec.Struct, frozen=True):
    """The tasks of a store by name, those that cannot be read, and the living schedulers."""

    tasks: tuple[TaskState, ...]
    unreadable: tuple[str, ...]
    living: frozenset[str]


class RunRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request to run a task now."""

    requested_at: datetime


async def read_tasks(store: DocumentStore, clock: Clock) -> TaskOverview:
    """All tasks of a store, for operators."""
    tasks: list[TaskState] = []
    unreadable: list[str] = []
    async for found in scan_tasks(store):
        if isinstance(found, BrokenRecord):
            unreadable.append(found.name)
        else:
            tasks.append(found.state)
    return TaskOverview(tuple(tasks), tuple(unreadable), await find_living(store, clock))


async def find_living(
    store: DocumentStore, clock: Clock, silent_for: timedelta = _SILENT_FOR
) -> frozenset[str]:
    """The schedulers that are alive on this store."""
    return await Presence(store, clock, "", silent_for).find_living()


async def check_registered(store: DocumentStore, name: str) -> None:
    """Raises TaskNotRegisteredError when the store has no task with that name."""
    if name not in await store.read(TASKS, [name]):
        raise TaskNotRegisteredError(name)


async def request_run(store: DocumentStore, clock: Clock, name: str) -> None:
    """Ask the schedulers to run a task once, now, in addition to its schedule.

    A request that is already waiting stays as it is. Raises TaskNotRegisteredError when the store
    has no task with that name.
    """
    await check_registered(store, name)
    body = msgspec.json.encode(RunRequest(clock.now()))
    await store.write_each([DocumentWrite(REQUESTS, name, None, body)])
