"""How full the queues in a file are."""

from datetime import datetime

import apsw

from rota.stores.protocol import QueueDepth
from rota.stores.sqlite.inspection.queries import QUERIES
from rota.stores.sqlite.jobs.rows import to_instant, to_micros


def survey_file(connection: apsw.Connection, now: datetime, tenant: str | None) -> list[QueueDepth]:
    """The depths of all queues; the cost is that of jobs that wait, run or are dead."""
    rows = connection.execute(QUERIES.survey, (to_micros(now), tenant))
    return [
        QueueDepth(
            queue=queue,
            due_count=due,
            later_count=later,
            running_count=running,
            stalled_count=stalled,
            dead_count=dead,
            oldest_due_at=None if oldest is None else to_instant(oldest),
        )
        for queue, due, later, running, stalled, dead, oldest in rows
    ]
