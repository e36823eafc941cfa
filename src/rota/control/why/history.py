"""What is known of the past of a series, and what that says of one occurrence."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from rota.control.why.circumstances import Circumstances
from rota.control.why.explanation import Answer, Finding, Reason
from rota.control.why.series import describe_next, describe_rule, why_it_ends
from rota.control.why.wording import tell_error
from rota.jobs import Ending, Job, JobStatus
from rota.rail.audit import AuditEntry

_KEPT = "Runs that are so long ago are not kept, or were never recorded."


class SeriesHistory(NamedTuple):
    """The job that was asked about, all jobs of its series that are known, and what was done."""

    around: Circumstances
    jobs: tuple[Job, ...]
    acts: tuple[AuditEntry, ...] = ()

    @property
    def live(self) -> Job | None:
        """The job that stands for the next occurrence."""
        left = [job for job in self.jobs if not job.status.is_terminal]
        return max(left, key=meant_for) if left else None

    def find_for(self, occurrence_at: datetime) -> Job | None:
        return next((job for job in self.jobs if meant_for(job) == occurrence_at), None)

    def find_before(self, instant: datetime) -> Job | None:
        """The last job that is meant for a time before the instant."""
        return max(
            (job for job in self.jobs if meant_for(job) < instant), key=meant_for, default=None
        )

    def find_at(self, instant: datetime) -> Job | None:
        """The last job that was due and had not ended at the instant."""
        job = self.find_before(instant)
        if job is None or (job.status.is_terminal and job.updated_at < instant):
            return None
        return job

    def find_pause(self, instant: datetime) -> AuditEntry | None:
        """The pause, if there was one, in which the instant lies."""
        for act in self.acts:  # the newest first
            if act.at <= instant and act.action in ("pause", "resume"):
                return act if act.action == "pause" else None
        return None

    def describe_rule(self, at: datetime) -> Iterator[Reason]:
        """The rule, and its next occurrence after an instant."""
        yield from describe_rule(self.around.job, at)
        yield from describe_next(self.around.job, at)

    def describe_run(self, job: Job) -> Reason:
        """The job of an occurrence, and what became of it."""
        show, at = self.around.show, meant_for(job)
        ends = {
            JobStatus.COMPLETED: f"was done at {show(job.updated_at)}",
            JobStatus.FAILED: f"failed at {show(job.updated_at)}: {tell_error(job.last_error)}",
            JobStatus.BLOCKED: f"was blocked at {show(job.updated_at)}",
            JobStatus.RUNNING: "is running",
        }
        ended = ends.get(job.status, f"is {job.status.lower()}")
        if job.ending is Ending.CANCELLED:
            ended = f"was called off at {show(job.updated_at)}"
        text = f"Job {job.id}, for {show(at)}, {ended}"
        text = text if text.endswith(".") else f"{text}."
        return Reason(code="occurrence", text=text, at=at, job_id=job.id)


def meant_for(job: Job) -> datetime:
    """The occurrence that a job stands for."""
    return job.occurrence_at or job.due_at


def look_back(history: SeriesHistory, occurrence_at: datetime) -> Finding:
    """What became of an occurrence that is past."""
    run = history.find_for(occurrence_at)
    told = history.around.show(occurrence_at)
    if run is not None and not _was_paused_away(history, run):
        answer, sentence = _tell_run(run, told)
        reasons = [history.describe_run(run), *describe_rule(run, occurrence_at)]
        return Finding(answer, sentence, reasons)
    answer, reason = _find_cause(history, occurrence_at)
    sentence = f"It did not run at {told}, though its rule says so."
    if answer == "not known":
        sentence = f"It was to run at {told}; whether it did is not known."
    return Finding(answer, sentence, [reason, *history.describe_rule(occurrence_at)])


def _was_paused_away(history: SeriesHistory, run: Job) -> bool:
    """Whoever resumes a series calls off what it passed over while it was paused."""
    is_called_off = run.ending is Ending.CANCELLED
    return is_called_off and history.find_pause(meant_for(run)) is not None


def _tell_run(run: Job, told: str) -> tuple[Answer, str]:
    if run.ending is Ending.CANCELLED:
        return "called off", f"It was to run at {told}, and was called off."
    answers: dict[JobStatus, tuple[Answer, str]] = {
        JobStatus.COMPLETED: ("ran", f"It ran for {told}."),
        JobStatus.FAILED: ("failed", f"It ran for {told}, and failed for good."),
        JobStatus.BLOCKED: ("did not run", f"It did not run for {told}: it was blocked."),
        JobStatus.RUNNING: ("running", f"It is running now, for {told}."),
        JobStatus.READY: ("due", f"It has yet to run for {told}."),
        JobStatus.PENDING: ("waits", f"It waits for other jobs before it runs for {told}."),
    }
    return answers[run.status]


def _find_cause(history: SeriesHistory, occurrence_at: datetime) -> tuple[Answer, Reason]:
    """Why no job stands for an occurrence that is past."""
    job, show = history.around.job, history.around.show
    before, pause = history.find_before(occurrence_at), history.find_pause(occurrence_at)
    if job.recurrence is not None and occurrence_at < job.recurrence.start:
        text = f"The series began later, at {show(job.recurrence.start)}."
        return "did not run", Reason(code="later", text=text, at=job.recurrence.start)
    if pause is not None:
        text = f"{pause.who} had paused the series at {show(pause.at)}."
        return "did not run", Reason(code="paused", text=text, at=pause.at, who=pause.who)
    if before is None:
        return "not known", Reason(code="occurrence", text=_KEPT)
    if not before.status.is_terminal or before.updated_at >= occurrence_at:
        return "did not run", _describe_overlap(history, before)
    if history.live is None:
        text = f"The series had ended: {why_it_ends(history.around._replace(job=before))}."
        return "did not run", Reason(code="series_end", text=text, job_id=before.id)
    return "not known", Reason(code="occurrence", text=_KEPT)


def _describe_overlap(history: SeriesHistory, before: Job) -> Reason:
    """It came while the job before it still waited or ran."""
    show = history.around.show
    until = f"until {show(before.updated_at)}" if before.status.is_terminal else "and still does"
    verb = "ran or waited" if before.status.is_terminal else "runs or waits"
    text = (
        f"It was passed over, as the job for {show(meant_for(before))} {verb} {until}. That job "
        "stands for it, too, and its handler is told how many it stands for."
    )
    return Reason(code="overlap", text=text, at=meant_for(before), job_id=before.id)
