"""How a run stands to the time it was meant for."""

from datetime import datetime, timedelta

import msgspec

from rota.jobs.record import Job
from rota.jobs.recurrence import count_missed

_ON_TIME = timedelta(0)


class Punctuality(msgspec.Struct, frozen=True, gc=False):
    """When a run was meant to be, how late it is, and what it stands for besides.

    ``missed_count`` is how many occurrences of the series it is the first to hear of that nothing
    was run for. Each is told once, unless the run has to be repeated. ``is_catch_up``: the next
    occurrence has come already, so that this run stands for it, too.
    """

    scheduled_for: datetime
    late_for: timedelta
    missed_count: int = 0
    is_catch_up: bool = False


def assess_punctuality(job: Job, now: datetime) -> Punctuality:
    """What a handler that starts at ``now`` should know about its job's time.

    A job of a series was meant for its occurrence, whatever has moved it since. Any other was meant
    for when it is due, which a retry moves.
    """
    scheduled_for = job.occurrence_at or job.due_at
    late_for = max(now - scheduled_for, _ON_TIME)
    if job.recurrence is None or job.recurrence.overlap == "allow":
        return Punctuality(scheduled_for, late_for, job.missed_count)
    since_count = count_missed(job.recurrence, scheduled_for, now)
    return Punctuality(scheduled_for, late_for, job.missed_count + since_count, since_count > 0)
