"""What will become of an occurrence that is to come."""

from collections.abc import Iterator
from datetime import datetime

from rota.control.why.circumstances import Climate
from rota.control.why.explanation import Finding, Reason
from rota.control.why.history import SeriesHistory, meant_for
from rota.control.why.holding import list_holds
from rota.control.why.series import describe_overlap, describe_rule, why_it_ends
from rota.jobs import Ending, Job, Recurrence
from rota.jobs.recurrence import count_missed


def foresee(history: SeriesHistory, occurrence_at: datetime, climate: Climate | None) -> Finding:
    """Whether it will run, as far as can be known now."""
    told = history.around.show(occurrence_at)
    cause = _find_hindrance(history, occurrence_at)
    rule = [*describe_rule(history.around.job, occurrence_at)]
    if cause is not None:
        sentence = f"It will not run at {told}, though its rule says so."
        return Finding("will not run", sentence, [cause, *rule])
    live = history.live
    holds = [] if live is None or climate is None else [*_list_holds(live, climate, occurrence_at)]
    held_until = next((it.until for it in holds if it.code == "gate"), None)
    sentence = f"It will run at {told}."
    if held_until is not None:
        opens = history.around.show(held_until)
        sentence = f"It is due at {told}, but a gate will be closed until {opens}."
    reasons = [
        *rule,
        *holds,
        *([] if live is None else _describe_way(history, live, occurrence_at)),
    ]
    return Finding("will run", sentence, reasons, held_until or occurrence_at)


def _find_hindrance(history: SeriesHistory, occurrence_at: datetime) -> Reason | None:
    """What keeps the series from coming to the occurrence."""
    live, show = history.live, history.around.show
    if live is None or live.recurrence is None:
        last = max(history.jobs, key=meant_for)
        text = f"The series has ended: {why_it_ends(history.around._replace(job=last))}."
        return Reason(code="series_end", text=text, job_id=last.id)
    if live.is_paused:
        pause = next((act for act in history.acts if act.action == "pause"), None)
        by = "" if pause is None else f" by {pause.who} at {show(pause.at)}"
        text = f"The series is paused{by}; it will run if the series is resumed before."
        return Reason(code="paused", text=text, who=None if pause is None else pause.who)
    if live.ending is not Ending.CANCELLED and occurrence_at < meant_for(live):
        text = f"The series stands at {show(meant_for(live))} already, with job {live.id}."
        return Reason(code="next_occurrence", text=text, at=meant_for(live), job_id=live.id)
    return _find_end(history, live, live.recurrence, occurrence_at)


def _find_end(
    history: SeriesHistory, live: Job, recurrence: Recurrence, occurrence_at: datetime
) -> Reason | None:
    until = recurrence.until
    if until is not None and occurrence_at > until:
        text = f"The series ends at {history.around.show(until)}."
        return Reason(code="series_end", text=text, at=until)
    if recurrence.count is None:
        return None
    if count_missed(recurrence, meant_for(live), occurrence_at) < recurrence.count:
        return None
    left = "one occurrence" if recurrence.count == 1 else f"{recurrence.count} occurrences"
    return Reason(code="series_end", text=f"The series ends before: it has {left} left.")


def _list_holds(live: Job, climate: Climate, occurrence_at: datetime) -> Iterator[Reason]:
    for hold in list_holds(live, climate, occurrence_at):
        if hold.code in ("gate", "no_worker"):
            yield hold


def _describe_way(history: SeriesHistory, live: Job, occurrence_at: datetime) -> Iterator[Reason]:
    """The job that stands for it, or will after those before it."""
    if meant_for(live) == occurrence_at:
        yield history.describe_run(live)
        if live.due_at != occurrence_at:
            text = f"Its job has been put to {history.around.show(live.due_at)}."
            yield Reason(code="moved", text=text, at=live.due_at, job_id=live.id)
        return
    yield history.describe_run(live)
    yield from describe_overlap(live)
