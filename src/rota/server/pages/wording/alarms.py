"""What is wrong, in words, with the place where something can be done about it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rota.ops.overview import Alarm
from rota.server.pages.wording.facts import Link

QUEUES_NAMED = 4


class Warned(NamedTuple):
    """An alarm with the place where something can be done about it."""

    tone: str
    shape: str
    headline: str
    text: str
    link: str
    action: str


def warn_of(alarms: Sequence[Alarm], link: Link) -> list[Warned]:
    """One line for each thing that is wrong, however many queues it concerns."""
    by_concern: dict[str, list[Alarm]] = {}
    for each in alarms:
        by_concern.setdefault(each.concern, []).append(each)
    return [
        tell(by_concern[concern], link) for concern, tell in _WORDS.items() if concern in by_concern
    ]


def _warn_stalled(alarms: Sequence[Alarm], link: Link) -> Warned:
    text = "Their leases ran out, and no worker has rescued them yet."
    if _count(alarms) == 1:
        text = "Its lease ran out, and no worker has rescued it yet."
    headline = f"{_jobs(alarms, 'is', 'are')} stalled in {_places(alarms)}."
    return Warned("red", "alert", headline, text, link("workers"), "Show workers")


def _warn_alone(alarms: Sequence[Alarm], link: Link) -> Warned:
    headline = f"No worker takes from {_places(alarms)}."
    text = f"{_jobs(alarms, 'waits', 'wait')} there for one."
    return Warned("red", "alert", headline, text, link("workers"), "Show workers")


def _warn_dead(alarms: Sequence[Alarm], link: Link) -> Warned:
    headline = f"{_jobs(alarms, 'has', 'have')} failed for good in {_places(alarms)}."
    queue = alarms[0].queue if len(alarms) == 1 else None
    target = link("dead-letters", queue=queue)
    return Warned("red", "cross", headline, "", target, "Retry or discard")


def _warn_late(alarms: Sequence[Alarm], link: Link) -> Warned:
    queue = alarms[0].queue if len(alarms) == 1 else None
    target = link("jobs", status="READY", queue=queue)
    headline = f"{_jobs(alarms, 'is', 'are')} due in {_places(alarms)}, and late."
    text = "" if queue is None else _sentence(alarms[0])
    return Warned("amber", "clock", headline, text, target, "Show jobs")


def _warn_series(alarms: Sequence[Alarm], link: Link) -> Warned:
    text = _sentence(alarms[0])
    headline = "A series cannot go on." if len(alarms) == 1 else f"{len(alarms)} series stopped."
    return Warned("red", "alert", headline, text, link("schedules"), "Show schedules")


def _warn_tasks(alarms: Sequence[Alarm], link: Link) -> Warned:
    headline = "A task fails." if len(alarms) == 1 else f"{len(alarms)} tasks fail."
    text = _sentence(alarms[0])
    return Warned("amber", "again", headline, text, link("schedules"), "Show schedules")


_WORDS: dict[str, Callable[[Sequence[Alarm], Link], Warned]] = {
    "stalled": _warn_stalled,
    "no_worker": _warn_alone,
    "dead_letters": _warn_dead,
    "series": _warn_series,
    "late": _warn_late,
    "tasks": _warn_tasks,
}
"""What is wrong, the worst first."""


def _jobs(alarms: Sequence[Alarm], one: str, many: str) -> str:
    count = _count(alarms)
    return f"1 job {one}" if count == 1 else f"{count} jobs {many}"


def _count(alarms: Sequence[Alarm]) -> int:
    return sum(each.count for each in alarms)


def _sentence(alarm: Alarm) -> str:
    """What the alarm says; the names in it stay as they are written."""
    return f"{alarm.text[:1].upper()}{alarm.text[1:]}."


def _places(alarms: Sequence[Alarm]) -> str:
    """The queues by name; of many, the first few."""
    names = [each.queue or "" for each in alarms]
    if len(names) == 1:
        return f"queue {names[0]}"
    if len(names) > QUEUES_NAMED:
        return f"{len(names)} queues, among them {', '.join(names[:QUEUES_NAMED])}"
    return f"queues {', '.join(names[:-1])} and {names[-1]}"
