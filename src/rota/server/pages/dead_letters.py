"""The list of dead letters."""

from typing import Any, NamedTuple

from rota.rail import DeadLetterFilter
from rota.server.pages.statuses import make_rows
from rota.server.pages.visit import Visit, write_query

MOST_SHOWN = 25


class ChosenLetters(NamedTuple):
    """The filters in the address."""

    error: str = ""
    kind: str = ""
    queue: str = ""
    with_all: bool = False

    @property
    def is_narrow(self) -> bool:
        return any(self)

    @property
    def query(self) -> str:
        """The filters as a query string."""
        return write_query(self.as_query()).removeprefix("?")

    def as_query(self) -> dict[str, object]:
        everything = "yes" if self.with_all else ""
        return {"error": self.error, "kind": self.kind, "queue": self.queue, "all": everything}

    def as_filter(self) -> DeadLetterFilter:
        return DeadLetterFilter(
            kind=self.kind or None,
            queue=self.queue or None,
            error_contains=self.error or None,
            with_discarded=self.with_all,
            with_retried=self.with_all,
        )


async def read_letters(visit: Visit) -> dict[str, Any]:
    chosen = ChosenLetters(
        visit.ask("error"), visit.ask("kind"), visit.ask("queue"), visit.ask("all") == "yes"
    )
    cursor = visit.ask("cursor") or None
    page = await visit.dead_letters.list(chosen.as_filter(), cursor=cursor, limit=MOST_SHOWN)
    dead = await visit.find_jobs([each.job_id for each in page.items])
    here = chosen.as_query()
    older = visit.link("dead-letters", **here, cursor=page.next_cursor)
    return {
        "chosen": chosen,
        "rows": make_rows(dead, visit.now),
        "older": older if page.next_cursor else None,
        "newest": visit.link("dead-letters", **here) if cursor else None,
    }
