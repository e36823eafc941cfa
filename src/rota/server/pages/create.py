"""Forms for jobs: create one, change one, retry one with changes, and duplicate one.

The fields of the payload come from the JSON Schema of the kind. A kind without a schema, and a
payload that does not fit, are edited as JSON.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict
from starlette.responses import Response

from rota.auth.caller import Scope
from rota.auth.masking import mask_secrets, restore_secrets
from rota.errors import ConflictError, ForbiddenError, InvalidInputError, RotaError
from rota.escape import escape
from rota.jobs import Job, JobId
from rota.ops.edits import duplicate_job, edit_job, retry_edited
from rota.policy.audit import AuditedAction, record_action
from rota.rail.dead_letters import is_dead
from rota.server.api.job_bodies import NewJob, RetryPolicyBody, admit_new_job, api_names
from rota.server.api.kinds import KindView, describe_kinds
from rota.server.pages.formats import read_json, read_number, read_wall, write_json
from rota.server.pages.responses import go_to, render_page
from rota.server.pages.schema_form import Group, build_form
from rota.server.pages.statuses import sign_of
from rota.server.pages.visit import Form, Visit, find_job

_WHOLE = "payload"
_MAX_ATTEMPTS = 3
_OPTIONS = ("name", "queue", "priority", "run_at", "max_attempts", "key", _WHOLE)


class Purpose(NamedTuple):
    """What a form is for, in words. ``{name}`` is the name of the job."""

    verb: str
    title: str
    button: str
    note: str
    done: str


NEW = Purpose("new", "Create a job", "Create job", "", "created")
EDIT = Purpose(
    "edit",
    "Change {name}",
    "Save changes",
    "A job that runs now keeps what it began with; its next attempt has the new values.",
    "edited",
)
RETRY = Purpose(
    "retry",
    "Edit and retry {name}",
    "Retry with these values",
    "A new job replaces this one. The failed job stays as it is.",
    "retried",
)
DUPLICATE = Purpose(
    "duplicate",
    "Duplicate {name}",
    "Create duplicate",
    "The new job is due at once unless you say when. It has no idempotency key and does not recur.",
    "duplicated",
)
_PURPOSES = {each.verb: each for each in (EDIT, RETRY, DUPLICATE)}


class Sheet(NamedTuple):
    """A form with what it holds.

    ``form`` are the fields of the payload; without them it is edited as JSON.
    """

    purpose: Purpose
    kind: str
    texts: Mapping[str, str]
    form: Group | None
    view: KindView | None = None
    job: Job | None = None
    problem: str = ""
    problem_field: str = ""


async def _show_new(visit: Visit) -> Response:
    """The form for a new job, or the kinds to choose from."""
    kind = visit.ask("kind").strip()
    if not kind:
        kinds = await describe_kinds(visit.context, with_built_in=True)
        return await render_page(visit, "job_kinds.html", kinds=kinds)
    view = await _find_kind(visit, kind)
    form = _choose_form(visit, view, {})
    priority = str(5 if view is None else view.priority)
    texts = {"name": kind, "queue": "default" if view is None else view.queue}
    texts |= {"priority": priority, "run_at": "", "max_attempts": str(_MAX_ATTEMPTS), "key": ""}
    return await _render(visit, Sheet(NEW, kind, texts | _show_payload(form, {}), form, view))


async def _create(visit: Visit, sheet: Sheet, form: Form) -> JobId:
    now = visit.clock.now()
    texts = sheet.texts
    run_at = _read_instant(visit, texts["run_at"])
    asked = NewJob(
        name=texts["name"],
        queue=texts["queue"],
        kind=sheet.kind,
        payload=_read_payload(sheet),
        priority=_read_number(texts["priority"]),
        run_at=None if run_at is None else run_at.isoformat(),
        retry_policy=RetryPolicyBody(max_attempts=_read_number(texts["max_attempts"])),
        idempotency_key=texts["key"] or None,
    )
    job = admit_new_job(asked, visit.context, visit.tenant, now)
    entry = AuditedAction(action="create", who=visit.who, why=form.why, job_ids=[job.id])
    await record_action(visit.around, entry)
    (inserted,) = await visit.insert([job], now)
    return inserted.job.id


async def show_job_form(visit: Visit) -> Response:
    """The form to create a job, or to change, retry or duplicate one with its values."""
    purpose, job = await _find_subject(visit)
    if job is None:
        return await _show_new(visit)
    view = await _find_kind(visit, job.kind)
    payload = mask_secrets(job.payload, visit.context.masked_words)
    form = _choose_form(visit, view, payload)
    texts = _show_job(visit, purpose, job) | _show_payload(form, payload)
    return await _render(visit, Sheet(purpose, job.kind, texts, form, view, job))


async def submit_job_form(visit: Visit, form: Form) -> Response:
    """Create, change, retry or duplicate a job as the form says."""
    purpose, job = await _find_subject(visit)
    kind = form.one("kind") if job is None else job.kind
    view = await _find_kind(visit, kind)
    fields = None if form.one("as") == "json" else _form_of(view)
    texts = dict.fromkeys(_OPTIONS, "") | {name: it[-1] for name, it in form.values.items()}
    sheet = Sheet(purpose, kind, texts, fields, view, job)
    try:
        with api_names():
            job_id = await (
                _create(visit, sheet, form) if job is None else _copy(visit, sheet, job, form)
            )
    except (InvalidInputError, ConflictError) as error:
        return await _render(visit, _with_problem(sheet, error))
    return go_to(visit.link("jobs", job_id, done=purpose.done))


async def _copy(visit: Visit, sheet: Sheet, job: Job, form: Form) -> JobId:
    changes = _list_changes(visit, sheet, job)
    around = visit.around
    said: dict[str, str | None] = {"who": visit.who, "why": form.why}
    if sheet.purpose is EDIT:
        seen = {"updated_at": form.one("updated_at")}
        return (await edit_job(around, job.id, changes | seen, **said)).id
    await visit.admit()
    if sheet.purpose is DUPLICATE:
        return (await duplicate_job(around, job.id, changes, **said)).id
    cascade = form.one("cascade") == "yes"
    retried = await retry_edited(around, job.id, changes, cascade=cascade, **said)
    return retried.replacements[job.id]


def _list_changes(visit: Visit, sheet: Sheet, job: Job) -> dict[str, Any]:
    """The values of the form that differ from those of the job."""
    shown = _show_job(visit, sheet.purpose, job)
    sent = {name: text for name, text in sheet.texts.items() if text != shown.get(name, text)}
    changes: dict[str, Any] = {name: sent[name] for name in ("name", "queue") if name in sent}
    if "priority" in sent:
        changes["priority"] = _read_number(sent["priority"])
    if "max_attempts" in sent:
        tries = _read_number(sent["max_attempts"])
        changes["retry_policy"] = asdict(job.retry_policy) | {"max_attempts": tries}
    due_at = _read_instant(visit, sent.get("run_at", ""))
    if due_at is not None:
        changes["due_at"] = due_at
    payload = restore_secrets(_read_payload(sheet), job.payload, visit.context.masked_words)
    if msgspec.json.encode(payload) != msgspec.json.encode(job.payload):
        visit.context.served.check(job.kind, payload)
        changes["payload"] = payload
    return changes


async def _find_subject(visit: Visit) -> tuple[Purpose, Job | None]:
    """The purpose and the job that the path names, if they go together."""
    if "job_id" not in visit.request.path_params:
        return NEW, None
    job = await find_job(visit)
    purpose = _PURPOSES[visit.request.url.path.rpartition("/")[2]]
    if purpose is RETRY and not visit.may_operate:
        raise ForbiddenError(Scope.OPERATE)
    if purpose is RETRY and not is_dead(job):
        raise ConflictError(f"Job {job.id} has not failed for good, so it cannot be retried")
    if purpose is EDIT and job.status.is_terminal:
        raise ConflictError(
            f"Job {job.id} has ended, so it cannot be changed. Duplicate it instead."
        )
    return purpose, job


async def _find_kind(visit: Visit, kind: str) -> KindView | None:
    known = await describe_kinds(visit.context, with_built_in=True)
    return next((it for it in known if it.kind == kind), None)


def _form_of(view: KindView | None) -> Group | None:
    return None if view is None else build_form(view.payload_schema)


def _choose_form(visit: Visit, view: KindView | None, payload: Any) -> Group | None:
    """The fields, unless JSON is asked for or the fields cannot hold the payload.

    A text with invisible characters is edited as JSON, which shows them.
    """
    form = _form_of(view)
    if form is None or visit.ask("as") == "json":
        return None
    if payload == {}:
        return form
    is_plain = all(
        escape(it) == it for text in form.show(payload).values() for it in text.split("\n")
    )
    return form if is_plain and form.holds(payload) else None


def _show_job(visit: Visit, purpose: Purpose, job: Job) -> dict[str, str]:
    due_at = ""
    if purpose is EDIT:
        due_at = job.due_at.astimezone(visit.zone).strftime("%Y-%m-%dT%H:%M:%S")
    return {
        "name": job.name,
        "queue": job.queue,
        "priority": str(job.priority),
        "run_at": due_at,
        "max_attempts": str(job.retry_policy.max_attempts),
    }


def _show_payload(form: Group | None, payload: Any) -> dict[str, str]:
    if form is not None:
        return form.show(payload)
    return {_WHOLE: write_json(payload)}


def _read_payload(sheet: Sheet) -> Any:
    if sheet.form is not None:
        return sheet.form.read(sheet.texts)
    return read_json(sheet.texts.get(_WHOLE, ""), _WHOLE)


def _read_number(text: str) -> Any:
    """A whole number, or the text itself, which admission refuses in its own words."""
    number = read_number(text)
    return text if number is None else number


def _read_instant(visit: Visit, text: str) -> datetime | None:
    """The instant of a wall time in the zone of the pages."""
    return read_wall(text.strip(), "run_at", visit.zone) if text.strip() else None


def _with_problem(sheet: Sheet, error: RotaError) -> Sheet:
    field = str(error.details.get("field", ""))
    return sheet._replace(problem=error.message, problem_field=field.partition("[")[0])


async def _render(visit: Visit, sheet: Sheet) -> Response:
    job = sheet.job
    return await render_page(
        visit,
        "job_form.html",
        status=400 if sheet.problem else 200,
        sheet=sheet,
        texts=sheet.texts,
        has_fields=_form_of(sheet.view) is not None,
        sign=None if job is None else sign_of(job, visit.now),
        title=sheet.purpose.title.format(name="" if job is None else job.name),
        zone_name=visit.now.astimezone(visit.zone).tzname(),
        back=visit.link("jobs") if job is None else visit.link("jobs", job.id),
    )
