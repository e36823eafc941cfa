"""Questions about tasks: what initialize() would do, why a task runs, and what a store holds.

Explanations use the functions that decide, and what is stored; no log is searched. A task's record
has its last start, success and failure, and its history the last runs. About older runs an
explanation says only whether they were due.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Literal, NamedTuple

import msgspec

from rota.clock.protocol import END_OF_TIME, Clock, to_utc
from rota.errors import CronCalculationError, InvalidCronExpressionError, TaskNotRegisteredError
from rota.scheduler.history import TaskRun, read_history
from rota.scheduler.orders import find_pause, list_paused
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
from rota.scheduler.storage import BrokenRecord, find_tasks, scan_tasks
from rota.scheduler.task import TaskPause, TaskState, decide_start
from rota.stores.protocol import DocumentStore
from rota.triggers.cron import Cron, CronTrigger, parse_stored_cron
from rota.triggers.zone import Fold, instants_of, wall_time

OCCURRENCES_SHOWN = 5
_SILENT_FOR = SchedulerSettings().peer_silent_for


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task: its standing, and its next occurrences before and after.

    ``standing`` is new, kept, changed or removed. ``is_interrupted``: it was running when its
    scheduler died, and would start at once.
    """

    name: str
    standing: str
    is_interrupted: bool
    changes: tuple[FieldChange, ...]
    occurrences_before: tuple[datetime, ...]
    occurrences_after: tuple[datetime, ...]


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
            is_interrupted=False,
            changes=(),
            occurrences_before=upcoming(stored.state.cron_expression),
            occurrences_after=(),
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
    context: SchedulerContext, expression: str, now: datetime, count: int = OCCURRENCES_SHOWN
) -> tuple[datetime, ...]:
    """The next few occurrences; none for text that is not a cron expression."""
    policy, zone = context.policy, context.zone
    try:
        cron = parse_stored_cron(expression, policy.dialect)
    except InvalidCronExpressionError:
        return ()
    return tuple(cron.between(now, END_OF_TIME, zone, limit=count, fold=policy.repeated_hour))


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
    pause: TaskPause | None = None
    runs: tuple[TaskRun, ...] = ()

    @property
    def is_paused(self) -> bool:
        return self.pause is not None and self.pause.is_active

    def find_run(self, minute: datetime) -> TaskRun | None:
        """The run that started in this minute."""
        started = (it for it in self.runs if _to_minute(it.started_at) == minute)
        return next(started, None)

    def show(self, instant: datetime) -> str:
        local = instant.astimezone(self.zone)
        return f"{local:%a %Y-%m-%d %H:%M:%S %Z}"

    def last_due_at(self, instant: datetime) -> datetime | None:
        return CronTrigger(self.cron, self.zone, fold=self.fold).previous_at(instant)

    def next_due_at(self, instant: datetime) -> datetime | None:
        return CronTrigger(self.cron, self.zone, fold=self.fold).next_after(instant)

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


async def find_task(store: DocumentStore, name: str) -> TaskState:
    """The stored task. Raises TaskNotRegisteredError, or what is wrong with its record."""
    found = (await find_tasks(store, [name])).get(name)
    if found is None:
        raise TaskNotRegisteredError(name)
    if isinstance(found, BrokenRecord):
        raise found.error
    return found.state


async def _ask(context: SchedulerContext, name: str) -> Question:
    state, policy = await find_task(context.store, name), context.policy
    silent_for = context.settings.peer_silent_for
    cron = parse_stored_cron(state.cron_expression, policy.dialect)
    return Question(
        state=state,
        cron=cron,
        zone=cron.zone or context.zone,
        fold=policy.repeated_hour,
        now=context.clock.now(),
        living=await find_living(context.store, context.clock, silent_for),
        pause=None if (paused := await find_pause(context.store, name)) is None else paused.pause,
        runs=await read_history(context.store, name),
    )


def _explain_now(question: Question) -> Explanation:
    state, now = question.state, question.now
    last_due_at = question.last_due_at(now)
    if question.pause is not None and question.pause.skips(last_due_at):
        last_due_at = None
    start = decide_start(state, last_due_at, now, is_interrupted=question.is_interrupted)
    next_at = question.next_due_at(now)
    answer: Answer = "will run"
    reasons = []
    if question.pause is not None and question.is_paused:
        answer = "running" if state.running else "will not run"
        reasons.append(_describe_pause(question, question.pause))
    elif start is not None:
        answer = "due"
        answered = question.show(start.scheduled_at)
        reasons.append(
            f"It is due now ({start.reason.value}): the occurrence at {answered} has not run."
        )
    elif state.running:
        answer = "running"
        since = question.show(state.last_attempt_at or now)
        reasons.append(f"It has been running since {since}, so it is not started again.")
    reasons.extend(_describe_history(question))
    if next_at is None:
        reasons.append("The expression has no further occurrence.")
    elif question.is_paused:
        reasons.append(f"Its schedule says {question.show(next_at)} next.")
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
    minute = _to_minute(at)
    run = question.find_run(minute)
    if run is not None:
        return "ran", [_describe_run(question, run)]
    if attempt_at is not None and _to_minute(attempt_at) == minute:
        reason = f": {state.last_reason}" if state.last_reason else ""
        return "ran", [f"It started at {question.show(attempt_at)}{reason}."]
    if state.retry_due_at is not None and _to_minute(state.retry_due_at) == minute:
        return "will run", [f"A retry is pending until {question.show(state.retry_due_at)}."]
    if not question.matches(at):
        return _judge_off_schedule(question, at)
    return _judge_occurrence(question, at)


def _judge_occurrence(question: Question, at: datetime) -> tuple[Answer, list[str]]:
    if question.pause is not None and question.is_paused and at > question.pause.at:
        answer: Answer = "will not run" if at > question.now else "did not run"
        return answer, [_describe_pause(question, question.pause)]
    if at > question.now:
        expression = question.state.cron_expression
        return "will run", [f'It matches "{expression}" in {question.zone}.']
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
    if state.registered_at is not None and at < _to_minute(state.registered_at):
        registered = question.show(state.registered_at)
        return "did not run", [f"It was due, but the task was registered later, at {registered}."]
    if question.pause is not None and question.pause.skips(at) and at > question.pause.at:
        return "did not run", [_describe_pause(question, question.pause)]
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


def _describe_pause(question: Question, pause: TaskPause) -> str:
    by = f" by {pause.who}" if pause.who else ""
    why = f" ({pause.why})" if pause.why else ""
    began = f"It was paused at {question.show(pause.at)}{by}{why}"
    if pause.resumed_at is None:
        return f"{began}. Nothing of it starts until it is resumed."
    return f"{began}, and resumed at {question.show(pause.resumed_at)} without catching up."


def _describe_run(question: Question, run: TaskRun) -> str:
    began = f"It started at {question.show(run.started_at)}: {run.reason}"
    if run.ended_at is None:
        return f"{began}. The run was interrupted."
    error = "" if run.error is None else f": {run.error}"
    return f"{began}. It {run.outcome} at {question.show(run.ended_at)}{error}."


def _to_minute(instant: datetime) -> datetime:
    return instant.replace(second=0, microsecond=0)


def _describe_history(question: Question) -> list[str]:
    state = question.state
    reasons = []
    if state.pending_retry_until is not None and state.retry_due_at is not None:
        until = question.show(state.retry_due_at)
        reasons.append(f"Its last run failed; it is tried again at {until}.")
    if state.last_attempt_at is None:
        reasons.append("It has not run yet.")
    elif not state.running:
        reason = f": {state.last_reason}" if state.last_reason else ""
        reasons.append(f"It last started at {question.show(state.last_attempt_at)}{reason}.")
    if state.last_success_at is not None:
        reasons.append(f"It last succeeded at {question.show(state.last_success_at)}.")
    return reasons


def _describe_showing(question: Question, at: datetime) -> list[str]:
    """Mention it when the wall clock shows this minute twice."""
    wall = _to_minute(wall_time(at, question.zone))
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
    """The tasks of a store by name, those that cannot be read, and the living schedulers.

    ``pauses`` are the pauses by task, active and ended.
    """

    tasks: tuple[TaskState, ...]
    unreadable: tuple[str, ...]
    living: frozenset[str]
    pauses: Mapping[str, TaskPause] = {}


async def read_tasks(store: DocumentStore, clock: Clock) -> TaskOverview:
    """All tasks of a store, for operators."""
    tasks: list[TaskState] = []
    unreadable: list[str] = []
    async for found in scan_tasks(store):
        if isinstance(found, BrokenRecord):
            unreadable.append(found.name)
        else:
            tasks.append(found.state)
    living, pauses = await find_living(store, clock), await list_paused(store)
    return TaskOverview(tuple(tasks), tuple(unreadable), living, pauses)


async def find_living(
    store: DocumentStore, clock: Clock, silent_for: timedelta = _SILENT_FOR
) -> frozenset[str]:
    """The schedulers that are alive on this store."""
    return await Presence(store, clock, "", silent_for).find_living()
