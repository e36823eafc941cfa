"""The retention page: what is kept, rules set after a question, and when a job goes."""

from datetime import timedelta

import httpx2
from tests.server.pages.conftest import START, Knock, sign_in

from rota.jobs import Succeeded, decide_outcome
from rota.stores.opened import OpenStore
from rota.stores.protocol import DocumentWrite, LeaseRequest
from rota.testing import a_job

PAGE = "/admin/retention"


async def end_a_job(store: OpenStore, days_ago: int) -> str:
    at = START - timedelta(days=days_ago)
    job = a_job(kind="mail", due_at=at, created_at=at)
    await store.insert([job], at)
    request = LeaseRequest(worker="w", limit=1, lease_for=timedelta(minutes=1))
    (leased,) = await store.lease(request, at)
    await store.apply([decide_outcome(leased, Succeeded(), at)], at)
    return job.id


async def test_a_shorter_rule_says_what_goes_before_it_is_stored(
    store: OpenStore, pages: httpx2.AsyncClient
) -> None:
    job_id = await end_a_job(store, days_ago=20)
    assert "30 days" in (await pages.get(PAGE)).text
    sent = {"action": "set", "whose": "own", "kind": "mail", "ended": "10d"}
    question = (await pages.post(PAGE, data=sent)).text
    assert "1 job will be removed now," in question
    assert "No rule is stored" in (await pages.get(PAGE)).text
    answer = await pages.post(PAGE, data=sent | {"confirmed": "yes", "why": "space"})
    assert answer.headers["location"].endswith("/admin/retention?done=rule-set")
    shown = (await pages.get(PAGE)).text
    assert "kind mail of tenant default" in shown
    assert "ended jobs 10d" in shown
    assert "Removed" in (await pages.get(f"/admin/jobs/{job_id}")).text
    removal = {"action": "remove", "whose": "own", "kind": "mail"}
    assert "No job is removed now." in (await pages.post(PAGE, data=removal)).text
    await pages.post(PAGE, data=removal | {"confirmed": "yes"})
    assert "No rule is stored" in (await pages.get(PAGE)).text
    audit = (await pages.get("/admin/audit")).text
    assert "set_retention" in audit or "set retention" in audit


async def test_a_mistake_is_shown_with_what_was_typed(pages: httpx2.AsyncClient) -> None:
    page = (await pages.post(PAGE, data={"action": "set", "ended": "soon", "kind": "mail"})).text
    assert "Not saved." in page
    assert "is not a length of time; write 30d, 12h or forever" in page
    assert 'value="soon"' in page


async def test_an_unreadable_rule_is_shown(store: OpenStore, pages: httpx2.AsyncClient) -> None:
    await store.write_all([DocumentWrite("retention", "/", None, b"{")])
    assert "Nothing is removed" in (await pages.get(PAGE)).text


async def test_only_admins_change_rules(knock: Knock) -> None:
    operator = knock("read+operate")
    await sign_in(operator, "read+operate")
    assert "Set rule" not in (await operator.get(PAGE)).text
    refused = await operator.post(PAGE, data={"action": "set", "ended": "1d"})
    assert refused.status_code == 403
