"""Pages as responses: rendered whole, or only the part that changes."""

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rota.server.pages.serving.templates import load_templates
from rota.server.pages.serving.visit import Visit, link_to

FRESH_BLOCK = "fresh"
"""The block of a template that is asked for again every few seconds."""

MENU = (
    ("overview", "", "Overview"),
    ("jobs", "jobs", "Jobs"),
    ("schedules", "schedules", "Schedules"),
    ("workers", "workers", "Workers"),
    ("gates", "gates", "Gates"),
    ("dead-letters", "dead-letters", "Dead letters"),
    ("audit", "audit", "Audit"),
)
"""Which pages there are: a name, the address and what it is called."""

_NEVER_KEPT = {"Cache-Control": "no-store", "Vary": "HX-Request"}


def render_page(visit: Visit, template: str, **values: Any) -> Response:
    """The page, or its fresh part alone when the page itself asks for it."""
    loaded = load_templates().get_template(template)
    context = {
        "visit": visit,
        "request": visit.request,
        "caller": visit.caller,
        "now": visit.now,
        "zone": visit.zone,
        "link": visit.link,
        "may_operate": visit.may_operate,
        "may_administer": visit.may_administer,
        "has_doors": visit.has_doors,
        "menu": MENU,
        "done": read_notice(visit),
        **values,
    }
    if visit.is_refresh and FRESH_BLOCK in loaded.blocks:
        block = loaded.blocks[FRESH_BLOCK](loaded.new_context(context))
        return HTMLResponse("".join(block), headers=_NEVER_KEPT)
    return HTMLResponse(loaded.render(context), headers=_NEVER_KEPT)


def render_alone(request: Request, template: str, status: int, **values: Any) -> Response:
    """A page outside of the frame: nobody has been let in yet, or something went wrong."""

    def link(*steps: str, **query: object) -> str:
        return link_to(request, *steps, **query)

    loaded = load_templates().get_template(template)
    text = loaded.render(request=request, link=link, **values)
    return HTMLResponse(text, status_code=status, headers=_NEVER_KEPT)


def go_to(address: str) -> Response:
    """After a form was posted: the browser gets the page anew, and may reload it safely."""
    return RedirectResponse(address, status_code=303)


NOTICES = {
    "cancelled": ("job cancelled", "jobs cancelled"),
    "retried": ("job put in line again", "jobs put in line again"),
    "discarded": ("dead letter discarded", "dead letters discarded"),
    "run": ("job is due now", "jobs are due now"),
    "task-asked": ("run of the task asked for", "runs of tasks asked for"),
    "paused": ("series paused", "series paused"),
    "resumed": ("series resumed", "series resumed"),
    "maintenance-on": ("maintenance begun or planned", "maintenances begun or planned"),
    "maintenance-off": ("maintenance ended", "maintenances ended"),
    "quiet-on": ("quiet hours set", "quiet hours set"),
    "quiet-off": ("quiet hours cleared", "quiet hours cleared"),
    "nothing": ("change was left to do", "changes were left to do"),
}
"""What may be said after an act. The address names one of these, and can say nothing else."""


def read_notice(visit: Visit) -> str:
    """What has just been done, as the address tells it."""
    words = NOTICES.get(visit.ask("done"))
    count = visit.ask("count", "1")
    if words is None or not (count.isascii() and count.isdigit() and len(count) < 9):
        return ""
    number = int(count)
    return f"{number:,} {words[0] if number == 1 else words[1]}.".replace(",", " ")
