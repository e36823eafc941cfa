"""The errors page: failures in groups, and what to do with the dead letters of a group."""

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
from rota.server.pages.responses import go_to, render_page, stream_page
from rota.server.pages.visit import Visit, read_form
from rota.telemetry.error_groups import ErrorGroup

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
    group = await find_error_group(visit.store, visit.tenant, _id(visit))
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


async def act_on_group(visit: Visit) -> Response:
    """Retry the dead letters of a group, or discard them after a question."""
    form = await read_form(visit.request)
    action, why = form.one("action"), form.one("why")
    if action not in {"retry", "discard"}:
        raise InvalidRequestError("action", "must be retry or discard")
    context, who = visit.around, visit.who
    group = await find_error_group(context.store, context.tenant, _id(visit))
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
            visit,
            "discard_group.html",
            group=group,
            count=len(ids),
            why=why,
            back=back,
        )
    gone = await discard_group(context, ids, who=who, why=why or None)
    return go_to(visit.link("errors", group.id, done="discarded", count=gone.discarded_count))


def _id(visit: Visit) -> str:
    return str(visit.request.path_params["group_id"])
