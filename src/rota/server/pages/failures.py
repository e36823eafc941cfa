"""Failures: dead letters, errors in groups, and what to do with the dead letters of a group."""

from typing import Any

from starlette.responses import Response

from rota.errors import InvalidRequestError
from rota.ops.error_groups import (
    discard_group,
    find_error_group,
    find_group_letters,
    list_error_groups,
    retry_group,
)
from rota.rail import DeadLetterFilter
from rota.server.pages.responses import go_to, render_page, stream_page
from rota.server.pages.visit import Chosen, Form, Visit, link_pages
from rota.telemetry.error_groups import ErrorGroup

LETTERS_LISTED = 25
LETTERS_SHOWN = 20
LETTERS_COUNTED = 100


async def read_groups(visit: Visit) -> dict[str, Any]:
    kind = visit.ask("kind").strip()
    groups = await list_error_groups(visit.store, visit.tenant)
    return {
        "kind": kind,
        "kinds": sorted({it.kind for it in groups}),
        "groups": [it for it in groups if kind in ("", it.kind)],
    }


async def show_error_group(visit: Visit) -> Response:
    group = await find_error_group(visit.store, visit.tenant, visit.part("group_id"))
    return await stream_page(
        visit, "error_group.html", lambda: _read_letters(visit, group), group=group
    )


async def _read_letters(visit: Visit, group: ErrorGroup) -> dict[str, Any]:
    context = visit.around
    letters = await find_group_letters(context, group, LETTERS_COUNTED)
    return {
        "count": len(letters.jobs),
        "has_more": letters.has_more,
        "rows": letters.jobs[:LETTERS_SHOWN],
    }


async def act_on_group(visit: Visit, form: Form) -> Response:
    """Retry the dead letters of a group, or discard them after a question."""
    action, why = form.one("action"), form.one("why")
    if action not in {"retry", "discard"}:
        raise InvalidRequestError("action", "must be retry or discard")
    context, who = visit.around, visit.who
    group = await find_error_group(context.store, context.tenant, visit.part("group_id"))
    ids = (await find_group_letters(context, group)).ids
    if action == "retry":
        await visit.admit(len(ids))
        retried = await retry_group(context, ids, who=who, why=why or None)
        return go_to(
            visit.link("errors", group.id, done="retried", count=len(retried.replacements))
        )
    if form.one("confirmed") != "yes":
        back = visit.link("errors", group.id)
        return await render_page(
            visit, "discard_group.html", group=group, count=len(ids), why=why, back=back
        )
    gone = await discard_group(context, ids, who=who, why=why or None)
    return go_to(visit.link("errors", group.id, done="discarded", count=gone.discarded_count))


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
    page = await visit.dead_letters.list(
        chosen.as_filter(), cursor=visit.cursor, limit=LETTERS_LISTED
    )
    dead = await visit.find_jobs([each.job_id for each in page.items])
    return {
        "chosen": chosen,
        "rows": dead,
        **link_pages(visit, "dead-letters", page.next_cursor, **chosen.as_query()),
    }
