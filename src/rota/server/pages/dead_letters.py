"""The list of dead letters."""

from typing import Any

from rota.rail import DeadLetterFilter
from rota.server.pages.visit import Chosen, Visit

MOST_SHOWN = 25


class ChosenLetters(Chosen, frozen=True):
    """The filters in the address. ``all`` is "yes" to include discarded and retried jobs."""

    error: str = ""
    kind: str = ""
    queue: str = ""
    all: str = ""

    @property
    def with_all(self) -> bool:
        return self.all == "yes"

    def as_filter(self) -> DeadLetterFilter:
        return DeadLetterFilter(
            kind=self.kind or None,
            queue=self.queue or None,
            error_contains=self.error or None,
            with_discarded=self.with_all,
            with_retried=self.with_all,
        )


async def read_letters(visit: Visit) -> dict[str, Any]:
    chosen = ChosenLetters.read(visit.request.query_params)
    cursor = visit.ask("cursor") or None
    page = await visit.dead_letters.list(chosen.as_filter(), cursor=cursor, limit=MOST_SHOWN)
    dead = await visit.find_jobs([each.job_id for each in page.items])
    here = chosen.as_query()
    older = visit.link("dead-letters", **here, cursor=page.next_cursor)
    return {
        "chosen": chosen,
        "rows": dead,
        "older": older if page.next_cursor else None,
        "newest": visit.link("dead-letters", **here) if cursor else None,
    }
