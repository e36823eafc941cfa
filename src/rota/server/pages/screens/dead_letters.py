"""Jobs that were tried as often as they may be."""

from typing import NamedTuple

from starlette.responses import Response

from rota.rail import DeadLetterFilter, DeadLetters
from rota.server.pages.serving.answers import render_page
from rota.server.pages.serving.visit import Visit, write_query
from rota.server.pages.wording.rows import make_rows

MOST_SHOWN = 50


class ChosenLetters(NamedTuple):
    """What is asked for in the address."""

    error: str = ""
    kind: str = ""
    queue: str = ""
    with_all: bool = False

    @property
    def is_narrow(self) -> bool:
        return any(self)

    @property
    def query(self) -> str:
        """The choice as it stands in an address."""
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


async def show_dead_letters(visit: Visit) -> Response:
    chosen = ChosenLetters(
        visit.ask("error"), visit.ask("kind"), visit.ask("queue"), visit.ask("all") == "yes"
    )
    cursor = visit.ask("cursor") or None
    letters = DeadLetters(visit.around.store, visit.tenant, clock=visit.around.clock)
    page = await letters.list(chosen.as_filter(), cursor=cursor, limit=MOST_SHOWN)
    ids = [each.job_id for each in page.items]
    found = await visit.around.store.get(visit.tenant, ids)
    here = chosen.as_query()
    older = visit.link("dead-letters", **here, cursor=page.next_cursor)
    return render_page(
        visit,
        "dead_letters.html",
        page="dead-letters",
        chosen=chosen,
        rows=make_rows([found[each] for each in ids if each in found], visit.now),
        older=older if page.next_cursor else None,
        newest=visit.link("dead-letters", **here) if cursor else None,
    )
