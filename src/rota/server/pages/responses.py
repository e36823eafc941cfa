"""Turns pages into responses: access checks, rendering, and error pages."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from rota.auth.caller import Caller, Scope
from rota.errors import (
    ForbiddenError,
    ForbiddenQueueError,
    InvalidInputError,
    NotFoundError,
    RotaError,
    UnauthorizedError,
)
from rota.jobs.fields import normalize_job_id, read_word
from rota.ops.holds import Hold, find_holds
from rota.server.http.context import ServerContext
from rota.server.http.guards import HOME, PageGuard
from rota.server.http.problems import find_meaning
from rota.server.pages.formats import read_number
from rota.server.pages.templates import load_templates
from rota.server.pages.visit import (
    THEMES,
    Form,
    MenuEntry,
    RecentResults,
    Visit,
    link_to,
    name_target,
    name_zone,
    read_form,
    read_preferences,
    root_of,
)

Page = Callable[[Visit], Awaitable[Response]]
Act = Callable[[Visit, Form], Awaitable[Response]]

FRESH_BLOCK = "fresh"
"""The template block that a page requests again every few seconds."""

BANNER = "parts/holds.html"
"""What holds jobs back: above every page, and replaced with each refresh."""

MENU = {
    "": "Overview",
    "/jobs": "Jobs",
    "/queues": "Queues",
    "/kinds": "Kinds",
    "/errors": "Errors",
    "/schedules": "Schedules",
    "/workers": "Workers",
    "/dead-letters": "Dead letters",
    "/tenants": "Tenants",
    "/gates": "Gates",
    "/retention": "Retention",
    "/audit": "Audit",
    "/tokens": "Tokens",
}
"""The titles of the pages in the menu, by path."""


def list_menu(views: Mapping[Scope, Collection[str]]) -> tuple[MenuEntry, ...]:
    """The menu of the pages that are served, in the order of ``MENU``."""
    scopes = {path: scope for scope, paths in views.items() for path in paths}
    return tuple(
        MenuEntry(path[1:] or "overview", (path[1:],) if path else (), title, scopes[path])
        for path, title in MENU.items()
        if path in scopes
    )


NOTICES = {
    "cancelled": ("job cancelled", "jobs cancelled"),
    "restored": ("job restored", "jobs restored"),
    "retried": ("job retried", "jobs retried"),
    "deleted": ("job deleted", "jobs deleted"),
    "discarded": ("dead letter discarded", "dead letters discarded"),
    "created": ("job created", "jobs created"),
    "edited": ("job changed", "jobs changed"),
    "duplicated": ("duplicate created", "duplicates created"),
    "revoked": ("token revoked", "tokens revoked"),
    "run": ("job is due now", "jobs are due now"),
    "task-run-now": ("task run requested", "task runs requested"),
    "task-pause": ("task paused", "tasks paused"),
    "task-resume": ("task resumed", "tasks resumed"),
    "series-created": ("series created", "series created"),
    "series-changed": ("series changed", "series changed"),
    "backfilled": ("job created for a past occurrence", "jobs created for past occurrences"),
    "paused": ("series paused", "series paused"),
    "resumed": ("series resumed", "series resumed"),
    "maintenance-on": ("maintenance window set", "maintenance windows set"),
    "maintenance-off": ("maintenance window ended", "maintenance windows ended"),
    "queue-paused": ("queue paused", "queues paused"),
    "queue-resumed": ("queue resumed", "queues resumed"),
    "queue-unchanged": ("change", "changes: the action applies to no selected queue"),
    "limit-set": ("limit set", "limits set"),
    "limit-cleared": ("limit cleared", "limits cleared"),
    "quiet-on": ("quiet hours set", "quiet hours set"),
    "quiet-off": ("quiet hours cleared", "quiet hours cleared"),
    "rule-set": ("retention rule set", "retention rules set"),
    "rule-removed": ("retention rule removed", "retention rules removed"),
    "kind-set": ("kind set", "kinds set"),
    "nothing": ("change", "changes: the selected jobs have changed meanwhile"),
}
"""The notices after an action. The address chooses one of them and cannot add any other text."""

_NOT_STORED = {"Cache-Control": "no-store", "Vary": "HX-Request"}
_FIRST_FAULT = 500
_log = logging.getLogger("rota.server")


class PageServer(NamedTuple):
    """What every page is served with."""

    context: ServerContext
    guard: PageGuard
    zone: tzinfo
    recent: RecentResults
    menu: Sequence[MenuEntry] = ()

    def serve(self, page: Page, scope: Scope) -> Callable[..., Awaitable[Response]]:
        """The page for callers with the scope; an error page for all others."""

        async def answer(request: Request) -> Response:
            try:
                caller = await self.guard.admit(request.scope)
                if not caller.may(scope):
                    raise ForbiddenError(scope)
                if caller.queues is not None:
                    raise ForbiddenQueueError(caller.queues)
                return await page(self._visit(request, caller))
            except UnauthorizedError:
                return _go_to_sign_in(request)
            except RotaError as error:
                return explain_failure(request, error)

        return answer

    def serve_form(self, act: Act, scope: Scope) -> Callable[..., Awaitable[Response]]:
        """As ``serve``, for what is done with a form. Its changes show at once."""

        async def page(visit: Visit) -> Response:
            try:
                return await act(visit, await read_form(visit.request))
            finally:
                self.recent.forget(visit.tenant)

        return self.serve(page, scope)

    def _list_menu(self, caller: Caller) -> list[MenuEntry]:
        return [
            it
            for it in self.menu
            if caller.may(it.scope) and (it.name != "tenants" or caller.runs_installation)
        ]

    def _visit(self, request: Request, caller: Caller) -> Visit:
        chosen = read_preferences(request)
        return Visit(
            request=request,
            caller=choose_tenant(request, caller),
            context=self.context,
            recent=self.recent,
            now=self.context.clock.now(),
            zone=self.zone,
            shown_zone=chosen.zone or self.zone,
            theme=chosen.theme,
            has_sign_in=self.guard.asks_for_tokens,
            menu=self._list_menu(caller),
            runs_installation=caller.runs_installation,
        )


TENANT_COOKIE = "rota_tenant"
"""The tenant whose pages an admin of the default tenant looks at."""


def choose_tenant(request: Request, caller: Caller) -> Caller:
    """The caller, for the tenant it has chosen on the tenants page if it may choose."""
    chosen = request.cookies.get(TENANT_COOKIE)
    if chosen is None or not caller.runs_installation:
        return caller
    try:
        return msgspec.structs.replace(caller, tenant=read_word(chosen, "tenant"))
    except InvalidInputError:
        return caller


async def render_page(visit: Visit, template: str, *, status: int = 200, **values: Any) -> Response:
    """The page, or only its fresh block when the page refreshes itself."""
    values["holds"] = await _find_holds(visit)
    has_fresh = FRESH_BLOCK in load_templates().get_template(template).blocks
    render = _render_fresh if visit.is_refresh and has_fresh else _render
    return HTMLResponse(render(visit, template, values), status, headers=_NOT_STORED)


Load = Callable[[], Awaitable[Mapping[str, Any]]]


def show(template: str, load: Callable[[Visit], Awaitable[Mapping[str, Any]]]) -> Page:
    """A page whose frame needs nothing of what ``load`` reads."""

    async def page(visit: Visit) -> Response:
        return await stream_page(visit, template, lambda: load(visit))

    return page


async def stream_page(visit: Visit, template: str, load: Load, **known: Any) -> Response:
    """The page in two parts: the frame, which the browser paints at once, and what ``load`` reads.

    ``known`` is what the title and the headline need. The frame carries the status: a page refuses
    a request before it calls this, and a store that does not answer fails here, with the banner.
    A refresh has no frame, and only the store can refuse a cursor: both are sent whole.
    """
    if visit.is_refresh or visit.cursor:
        return await render_page(visit, template, **known, **await load())
    known["holds"] = await _find_holds(visit)
    parts = _send_parts(visit, template, load, known)
    return StreamingResponse(parts, media_type="text/html", headers=_NOT_STORED)


async def _send_parts(
    visit: Visit, template: str, load: Load, known: Mapping[str, Any]
) -> AsyncIterator[str]:
    yield _render(visit, template, known, part="frame")
    try:
        rest = _render(visit, template, {**known, **await load()}, part="rest")
    except Exception as error:  # noqa: BLE001 - the status is sent: only the page can still say it
        rest = _render(visit, "failure.html", {**known, **_describe_failure(error)}, part="rest")
    yield rest


async def _find_holds(visit: Visit) -> Sequence[Hold]:
    return await visit.cached("holds", lambda: find_holds(visit.store, visit.clock, visit.tenant))


def _render(
    visit: Visit,
    template: str,
    values: Mapping[str, Any],
    part: Literal["whole", "frame", "rest"] = "whole",
) -> str:
    loaded = load_templates().get_template(template)
    return loaded.render(_describe_visit(visit), part=part, **values)


def _render_fresh(visit: Visit, template: str, values: Mapping[str, Any]) -> str:
    """The block that changes, and the banner."""
    loaded = load_templates().get_template(template)
    context = {**_describe_visit(visit), **values}
    block = "".join(loaded.blocks[FRESH_BLOCK](loaded.new_context(context)))
    return block + load_templates().get_template(BANNER).render(context)


def _describe_visit(visit: Visit) -> dict[str, Any]:
    """What every template knows."""
    return {
        "visit": visit,
        "page": visit.page,
        "request": visit.request,
        "caller": visit.caller,
        "now": visit.now,
        "zone": visit.shown_zone,
        "theme": visit.theme,
        "this_page": name_target(visit),
        "themes": THEMES,
        "zone_name": name_zone(visit.shown_zone),
        "server_zone_name": name_zone(visit.zone),
        "link": visit.link,
        "may_operate": visit.may_operate,
        "may_administer": visit.may_administer,
        "has_sign_in": visit.has_sign_in,
        "menu": visit.menu,
        "done": read_notice(visit),
        "undo": normalize_job_id(visit.ask("undo")) if visit.may_operate else None,
        "is_refresh": visit.is_refresh,
    }


def render_part(visit: Visit, template: str, **values: Any) -> Response:
    """A fragment that a page requests by itself."""
    loaded = load_templates().get_template(template)
    text = loaded.render(link=visit.link, now=visit.now, zone=visit.shown_zone, **values)
    return HTMLResponse(text, headers=_NOT_STORED)


def render_alone(request: Request, template: str, status: int, **values: Any) -> Response:
    """A page without the menu: sign-in and errors."""

    def link(*steps: str, **query: object) -> str:
        return link_to(request, *steps, **query)

    loaded = load_templates().get_template(template)
    text = loaded.render(
        request=request, link=link, theme=read_preferences(request).theme, **values
    )
    return HTMLResponse(text, status_code=status, headers=_NOT_STORED)


def go_to(address: str) -> Response:
    """Redirect after a form was posted, so that the browser may reload the page safely."""
    return RedirectResponse(address, status_code=303)


def read_notice(visit: Visit) -> str:
    """The notice that the address names."""
    words = NOTICES.get(visit.ask("done"))
    number = read_number(visit.ask("count", "1"))
    if words is None or number is None:
        return ""
    return f"{number:,} {words[0] if number == 1 else words[1]}.".replace(",", " ")


async def go_home(request: Request) -> Response:
    return go_to(link_to(request))


async def serve_nothing(request: Request) -> Response:
    """The error page for an unknown path."""
    return explain_failure(request, NotFoundError("This page does not exist."))


def explain_failure(request: Request, error: RotaError) -> Response:
    """A page that says what went wrong and what to do."""
    failure = _describe_failure(error)
    return render_alone(request, "error.html", failure["code"], **failure)


def _describe_failure(error: Exception) -> dict[str, Any]:
    """What a person may know of it: all of a refusal, and where the log has a fault."""
    code = find_meaning(type(error)).status if isinstance(error, RotaError) else _FIRST_FAULT
    if code < _FIRST_FAULT:
        return {"code": code, "message": str(error)}
    number = uuid4().hex[:12]
    trace = None if isinstance(error, RotaError) else error
    _log.warning("A page could not be served, incident %s: %s", number, error, exc_info=trace)
    return {"code": code, "message": f"The server log has details under incident {number}."}


def _go_to_sign_in(request: Request) -> Response:
    """Redirect to the sign-in page and back afterwards; 401 for a refresh."""
    if request.headers.get("hx-request") == "true":
        return Response(status_code=401)
    if request.method != "GET":
        return go_to(link_to(request, "sign-in"))
    here = request.url.path.removeprefix(root_of(request))
    asked = f"{here}?{request.url.query}" if request.url.query else here
    return go_to(link_to(request, "sign-in", next=None if asked == HOME else asked))
