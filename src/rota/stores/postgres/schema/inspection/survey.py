"""How full the queues in a database are."""

from datetime import datetime

from rota.stores.postgres.jobs.rows import in_calendar
from rota.stores.postgres.schema.inspection.queries import QUERIES
from rota.stores.postgres.session import Session
from rota.stores.protocol import QueueDepth


async def survey_database(session: Session, now: datetime, tenant: str | None) -> list[QueueDepth]:
    """The depths of all queues; the cost is that of jobs that wait, run or are dead."""
    return [
        QueueDepth(
            queue=queue,
            due_count=due,
            later_count=later,
            running_count=running,
            stalled_count=stalled,
            dead_count=dead,
            oldest_due_at=None if oldest is None else in_calendar(oldest),
        )
        for queue, due, later, running, stalled, dead, oldest in await session.fetch(
            QUERIES.survey, now, tenant
        )
    ]
