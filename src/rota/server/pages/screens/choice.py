"""What was chosen in a list: some jobs by their ids, or all that a filter lets through."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl

from rota.errors import InvalidRequestError
from rota.jobs import Job, JobId, JobStatus
from rota.jobs.identity import normalize_job_id
from rota.jobs.search import HIGHEST_LIMIT
from rota.ops.search import JobQuery, search_jobs
from rota.rail import DeadLetters
from rota.rail.dead_letters import HIGHEST_RETRY, is_dead
from rota.rail.jobs import RailContext as RailSurroundings
from rota.rail.jobs import RailSettings
from rota.server.pages.screens.dead_letters import ChosenLetters
from rota.server.pages.screens.jobs import read_choice
from rota.server.pages.serving.forms import Form
from rota.server.pages.serving.visit import Visit

MOST_CHOSEN = HIGHEST_RETRY
MOST_BLOCKED = 1_000

_LONGEST_FILTER = 2_000


class Origin(NamedTuple):
    """The list, or the job, that a form was sent from, and what it was narrowed to."""

    page: str
    filter: str
    job_id: JobId | None = None

    def link_back(self, visit: Visit, **query: object) -> str:
        """To where somebody came from, as they had left it."""
        if self.page in {"jobs", "dead-letters"}:
            return visit.link(self.page, **dict(self.read_filter()), **query)
        if self.job_id is not None:
            return visit.link("jobs", self.job_id, **query)
        return visit.link("jobs", **query)

    def read_filter(self) -> list[tuple[str, str]]:
        return parse_qsl(self.filter)

    def as_query(self, visit: Visit) -> JobQuery:
        return read_choice(dict(self.read_filter())).as_search(visit)

    def as_letters(self) -> ChosenLetters:
        given = dict(self.read_filter())
        names = given.get("error", ""), given.get("kind", ""), given.get("queue", "")
        return ChosenLetters(*names, given.get("all") == "yes")


def read_origin(form: Form) -> Origin:
    filtered = form.one("filter")
    if len(filtered) > _LONGEST_FILTER:
        raise InvalidRequestError("filter", f"must have at most {_LONGEST_FILTER} characters")
    ids = form.several("id")
    job_id = normalize_job_id(ids[0]) if len(ids) == 1 else None
    return Origin(form.one("from"), filtered, job_id)


def read_ids(form: Form, name: str = "id") -> list[JobId]:
    """The ids in the form, each once; what is no id is refused."""
    found: dict[JobId, None] = {}
    for text in form.several(name)[: MOST_CHOSEN + MOST_BLOCKED]:
        job_id = normalize_job_id(text)
        if job_id is None:
            raise InvalidRequestError(name, "must be the id of a job")
        found[job_id] = None
    return list(found)


async def read_jobs(visit: Visit, ids: Sequence[JobId]) -> list[Job]:
    """Those of the tenant's that still exist, in the order they were named."""
    found = await visit.around.store.get(visit.tenant, ids) if ids else {}
    return [found[each] for each in ids if each in found]


async def find_all_dead(visit: Visit, origin: Origin) -> list[Job]:
    """Every dead letter that the list shows, up to as many as one call retries."""
    if origin.page == "dead-letters":
        letters = DeadLetters(visit.around.store, visit.tenant, clock=visit.around.clock)
        plan = await letters.plan_retry(origin.as_letters().as_filter(), limit=MOST_CHOSEN)
        return await read_jobs(visit, plan.job_ids)
    query = origin.as_query(visit)
    found: list[Job] = []
    cursor: str | None = None
    while len(found) < MOST_CHOSEN:
        page = await search_jobs(
            visit.around.store, visit.tenant, query, cursor=cursor, limit=HIGHEST_LIMIT
        )
        found += [job for job in page.items if is_dead(job)]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found[:MOST_CHOSEN]


async def find_blocked_by(visit: Visit, dead: Sequence[Job]) -> list[JobId]:
    """The jobs that wait in vain for one of these, directly or through others."""
    found: dict[JobId, None] = {}
    left = [job.id for job in dead]
    while left and len(found) < MOST_BLOCKED:
        dependents = await visit.around.store.find_dependents(visit.tenant, left, MOST_BLOCKED)
        blocked = [job.id for job in dependents if job.status is JobStatus.BLOCKED]
        left = [each for each in blocked if each not in found]
        found.update(dict.fromkeys(left))
    return list(found)[:MOST_BLOCKED]


def rail_around(visit: Visit) -> RailSurroundings:
    """What operators' verbs work with, for the tenant whose pages these are."""
    around = visit.around
    return RailSurroundings(
        around.store, visit.tenant, around.clock, RailSettings(), around.draw_bits
    )
