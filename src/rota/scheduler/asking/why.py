"""Why a task ran, did not run, or will run at some instant.

The answer is computed with the very functions that decide, from what is stored; nothing is searched
for in logs. The record of a task keeps its last start, success and failure: about older runs it can
say whether they were due, not how they went, and it says so.
"""

from datetime import UTC, datetime, tzinfo
from typing import Literal, NamedTuple

import msgspec

from rota.errors import CronCalculationError, TaskNotRegisteredError
from rota.scheduler.keeping.ledger import TASKS, BrokenRecord, interpret
from rota.scheduler.keeping.presence import Presence
from rota.scheduler.surroundings import Surroundings
from rota.scheduler.tasks.evaluate import decide_start
from rota.scheduler.tasks.state import TaskState
from rota.triggers.cron import Cron
from rota.triggers.parse import parse_cron
from rota.triggers.zone import Fold, instants_of, to_utc, wall_time

Answer = Literal["ran", "running", "due", "will run", "will not run", "did not run", "unknown"]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in one word, and the reasons in sentences, most telling first."""

    name: str
    at: datetime | None
    answer: Answer
    reasons: tuple[str, ...]
    next_at: datetime | None = None

    def __str__(self) -> str:
        return "\n".join(self.reasons)


class Question(NamedTuple):
    """Everything an answer is computed from."""

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

    @property
    def is_interrupted(self) -> bool:
        return self.state.running and self.state.scheduler_identifier not in self.living


async def explain_task(surroundings: Surroundings, name: str, at: datetime | None) -> Explanation:
    """Answer for a stored task; a naive ``at`` is wall time in the scheduler's zone."""
    question = await _ask(surroundings, name)
    if at is None:
        return _explain_now(question)
    if at.tzinfo is None:
        shown = instants_of(at, question.zone, gap="skip", fold="both")
        if not shown:
            return _explain_gap(question, at)
        at = shown[0]
    return _explain_instant(question, to_utc(at, "at"))


async def _ask(surroundings: Surroundings, name: str) -> Question:
    documents = await surroundings.store.read(TASKS, [name])
    if name not in documents:
        raise TaskNotRegisteredError(name)
    found = interpret(documents[name], {})
    if isinstance(found, BrokenRecord):
        raise found.error
    state = found.state
    policy = surroundings.policy
    presence = Presence(
        surroundings.store, surroundings.clock, "", surroundings.settings.peer_silent_for
    )
    return Question(
        state=state,
        cron=parse_cron(state.cron_expression, dialect=policy.dialect),
        zone=surroundings.zone,
        fold=policy.repeated_hour,
        now=surroundings.clock.now(),
        living=await presence.find_living(),
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
    if not question.cron.matches(at, question.zone, fold=question.fold):
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
    """Say so when the wall clock shows this minute twice."""
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
