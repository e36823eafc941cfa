"""The form of a rule: what people type, and what a series is made from."""

from collections.abc import Collection
from typing import Any, get_args

from starlette.responses import Response

from rota.auth.caller import Scope
from rota.auth.masking import mask_secrets
from rota.errors import ForbiddenError, InvalidRequestError, RotaError
from rota.jobs import CatchUp, JobRequest, Overlap, Recurrence, RetryPolicy, admit_job
from rota.ops.kinds import read_kinds
from rota.ops.schedules import read_text
from rota.rail.environment import with_usual_attempts
from rota.server.pages.formats import read_json, write_json
from rota.server.pages.outlook import Outlook, preview_rule
from rota.server.pages.responses import go_to, render_page, render_part
from rota.server.pages.visit import Form, Visit
from rota.triggers.zone import Fold, Gap

LONGEST_PAYLOAD = 64 * 1024
CHOICES = {
    "gap": ("", *get_args(Gap)),
    "fold": ("", *get_args(Fold)),
    "overlap": get_args(Overlap),
    "catch_up": get_args(CatchUp),
}
"""The choices of each list in the form. An empty one leaves it to the rule."""

_PRIORITY = 5
_TEXTS = ("jitter", "alert_after", "until")
_EMPTY = Outlook("", problem="")


def show_recurrence(recurrence: Recurrence) -> dict[str, str]:
    """The fields of the form for this rule."""
    when = f"every {recurrence.interval}" if recurrence.interval else recurrence.text
    shown = {"when": when, "zone": recurrence.zone}
    for name in (*CHOICES, "jitter", "alert_after", "count"):
        value = getattr(recurrence, name)
        shown[name] = "" if value is None else str(value)
    shown["until"] = "" if recurrence.until is None else recurrence.until.isoformat()
    return shown


def read_rule(given: Form) -> dict[str, Any]:
    """The rule in the form, as ``read_recurrence`` takes it. Raises what is wrong with it."""
    if not given.one("when"):
        raise InvalidRequestError("when", "is missing: cron, an RRULE, or a duration such as 15m")
    fields = read_text(given.one("when"))
    zone = given.one("zone")
    fields |= {"zone": zone} if zone else {}
    for name in (*CHOICES, *_TEXTS):
        if given.one(name):
            fields[name] = given.one(name)
    count = given.number("count")
    fields |= {} if count is None else {"count": count}
    return fields


async def preview_given(visit: Visit, given: Form) -> Outlook:
    """The rule in the form in words, with its next runs; or what is wrong with it."""
    if not given.one("when"):
        return _EMPTY
    try:
        fields = read_rule(given)
    except RotaError as error:
        return Outlook("", problem=error.message)
    if all(given.one(name) == given.one(f"kept_{name}") for name in ("when", "zone")):
        fields["start"] = given.one("kept_start")  # the series that is edited keeps its phase
    return await preview_rule(fields, visit.now)


async def show_preview(visit: Visit) -> Response:
    """The part of a form that changes while a person types."""
    given = Form.of(visit.request.query_params)
    outlook = await preview_given(visit, given)
    return render_part(visit, "parts/rule_preview.html", outlook=outlook)


async def show_form(visit: Visit) -> Response:
    given = Form.of(visit.request.query_params)
    return await _render_new(visit, given)


async def create_series(visit: Visit, given: Form) -> Response:
    """Create a series from the form, or show the form again with what is wrong."""
    if given.one("action") == "preview":
        return await _render_new(visit, given)
    if not visit.caller.may(Scope.WRITE):
        raise ForbiddenError(Scope.WRITE)
    try:
        series_id = await _create(visit, given)
    except RotaError as error:
        return await _render_new(visit, given, error.message.replace("recurrence.", ""))
    return go_to(visit.link("schedules", "series", series_id, done="series-created"))


async def _create(visit: Visit, given: Form) -> str:
    now, priority = visit.clock.now(), given.number("priority")
    request = JobRequest(
        name=given.one("name"),
        kind=given.one("kind") or None,
        queue=given.one("queue") or "default",
        payload=read_payload(given.one("payload") or "{}"),
        priority=_PRIORITY if priority is None else priority,
        retry_policy=with_usual_attempts(RetryPolicy()),
        recurrence=read_rule(given),  # type: ignore[arg-type]  # a mapping is read as one
    )
    job = admit_job(request, job_id=visit.context.make_id(now), now=now, tenant=visit.tenant)
    visit.context.served.check(job.kind, job.payload)
    (inserted,) = await visit.insert([job], now)
    return inserted.job.origin or inserted.job.id


async def _render_new(visit: Visit, given: Form, problem: str = "") -> Response:
    kinds = {*await read_kinds(visit.store), *await visit.context.served.list()}
    return await render_page(
        visit,
        "schedule_new.html",
        given=given,
        choices=CHOICES,
        kinds=sorted(kinds),
        outlook=await preview_given(visit, given),
        problem=problem,
        may_write=visit.caller.may(Scope.WRITE),
    )


def read_payload(text: str) -> Any:
    """The JSON value that a person typed."""
    if len(text) > LONGEST_PAYLOAD:
        raise InvalidRequestError("payload", f"must have at most {LONGEST_PAYLOAD} characters")
    return read_json(text, "payload")


def show_payload_text(payload: Any, masked_words: Collection[str]) -> str:
    """The payload for editing; nothing if the form cannot hold it, or it has secrets."""
    if mask_secrets(payload, masked_words) != payload:
        return ""
    text = write_json(payload)
    return text if len(text) <= LONGEST_PAYLOAD else ""
