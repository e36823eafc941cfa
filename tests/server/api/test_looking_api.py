"""/jobs/{id}/why, /graph, /attempts, /jobs/search, /overview, /queues, /workers, /audit."""

from tests.server.api.conftest import make, make_dead
from tests.server.api.neighbours import Neighbours
from tests.server.service import JOBS, NO_ID, field_of

from rota.auth.caller import Scope
from rota.jobs import JobState

LEASES = "/api/v1/leases"


async def test_why_is_asked_about_an_instant_or_a_time_on_the_wall(both: Neighbours) -> None:
    job = await make(both, run_at="2026-05-02T09:00:00Z")
    why = f"{JOBS}/{job['id']}/why"
    answer = (await both.ours.get(why, params={"at": "2026-05-02T08:00:00Z"})).json()
    assert (answer["answer"], answer["at"]) == ("will not run", "2026-05-02T08:00:00Z")
    answer = (await both.ours.get(why, params={"wall": "2026-05-02T09:00"})).json()
    assert (answer["answer"], answer["at"]) == ("will run", "2026-05-02T09:00:00Z")
    for wrong in (
        {"wall": "2026-05-02T09:00Z"},
        {"wall": "nine"},
        {"at": "2026-05-02T08:00:00Z", "wall": "2026-05-02T09:00"},
    ):
        refused = await both.ours.get(why, params=wrong)
        assert (refused.status_code, refused.json()["details"]["field"]) == (400, "wall")


async def test_why_names_what_a_job_waits_for(both: Neighbours) -> None:
    parent = await make(both, name="extract")
    child = await make(both, dependencies=[parent["id"]])
    answer = (await both.ours.get(f"{JOBS}/{child['id']}/why")).json()
    assert (answer["answer"], answer["status"]) == ("waits", "PENDING")
    assert answer["reasons"][0]["code"] == "dependency"
    assert answer["reasons"][0]["job_id"] == parent["id"]
    assert answer["asked_at"] == "2026-05-01T12:00:00Z"


async def test_the_graph_has_nodes_and_edges_and_a_limit(both: Neighbours) -> None:
    parent = await make(both)
    children = [await make(both, dependencies=[parent["id"]]) for _ in range(3)]
    graph = (await both.ours.get(f"{JOBS}/{parent['id']}/graph")).json()
    assert (len(graph["nodes"]), len(graph["edges"]), graph["is_cut"]) == (4, 3, False)
    edge = {"dependency_id": parent["id"], "dependent_id": children[0]["id"]}
    assert edge in graph["edges"]
    cut = (await both.ours.get(f"{JOBS}/{parent['id']}/graph?limit=2")).json()
    assert (len(cut["nodes"]), cut["is_cut"]) == (2, True)
    answer = await both.ours.get(f"{JOBS}/{parent['id']}/graph?limit=1001")
    assert field_of(answer) == "limit"


async def test_attempts_have_their_errors(both: Neighbours) -> None:
    dead = await make_dead(both)
    page = (await both.ours.get(f"{JOBS}/{dead['id']}/attempts")).json()
    (attempt,) = page["items"]
    assert (attempt["outcome"], attempt["error"]) == ("failed", "KeyError: 'x'")


async def test_jobs_are_found_by_text_and_kind_and_filters(both: Neighbours) -> None:
    mail = await make(both, name="Send MAIL", kind="send", priority=8)
    await make(both, name="other", kind="digest")
    for query, found in (
        ("q=kind:send mail", [mail["id"]]),
        ("q=state:ready&text=mail", [mail["id"]]),
        ("q=state:failed mail&status=READY", []),
        ("q=kind:send&index=false", [mail["id"]]),
        ("q=priority:8.. created:1h..", [mail["id"]]),
        ("q=priority:8..&priority_max=7", []),
        ("q=mail due:..now", []),
        ("q=mail due:..%2B1h", [mail["id"]]),
        ("text=mail", [mail["id"]]),
        ("kind=send", [mail["id"]]),
        (f"text={mail['id']}", [mail["id"]]),
        ("text=mail&queue=other", []),
        ("text=mail&status=READY", [mail["id"]]),
    ):
        page = (await both.ours.get(f"{JOBS}/search?{query}")).json()
        assert [it["id"] for it in page["items"]] == found, query
    first = (await both.ours.get(f"{JOBS}/search?q=queue:mail&limit=1")).json()
    assert first["has_more"]
    assert first["progress"]["searched_until"] == first["items"][0]["created_at"]
    whole = (await both.ours.get(f"{JOBS}/search?q=mail&sort=oldest")).json()
    assert whole["progress"] == {"searched_until": None, "share": 1.0}
    assert field_of(await both.ours.get(f"{JOBS}/search?q=colour:red")) == "q"
    assert field_of(await both.ours.get(f"{JOBS}/search?q=created:<2h")) == "q"
    assert field_of(await both.ours.get(f"{JOBS}/search?sort=best")) == "sort"
    counts = (await both.ours.get(f"{JOBS}/counts?q=mail")).json()
    assert counts["counts"] == dict.fromkeys(JobState, 0) | {"due": 1}
    assert counts["at_least"] == []
    refused = await both.ours.get(f"{JOBS}/counts?q=tenant:other mail")
    assert (refused.status_code, field_of(refused)) == (400, "q")
    items = (await both.ours.get(f"{JOBS}/suggest?q=mail kind:s")).json()["items"]
    assert items == [{"text": "mail kind:send", "label": "send", "field": "kind", "count": 1}]
    assert field_of(await both.ours.get(f"{JOBS}/search?text=")) == "text"
    assert field_of(await both.ours.get(f"{JOBS}/search?limit=0")) == "limit"


async def test_the_overview_and_the_queues_say_how_it_stands(both: Neighbours) -> None:
    await make_dead(both)
    await make(both)
    answer = (await both.ours.get("/api/v1/overview")).json()
    assert (answer["counts"]["READY"], answer["counts"]["FAILED"]) == (1, 1)
    assert [it["concern"] for it in answer["alarms"]] == ["no_worker", "dead_letters"]
    (queue,) = (await both.ours.get("/api/v1/queues")).json()["items"]
    assert queue | answer["queues"][0] == queue
    assert (queue["queue"], queue["due_count"], queue["dead_count"]) == ("mail", 1, 1)


async def test_workers_that_ask_over_http_are_seen_by_their_tenant(both: Neighbours) -> None:
    asked = {"worker": "w7", "queues": ["mail"], "kinds": ["send"], "labels": ["v2"]}
    await both.ours.post(LEASES, json=asked)
    (worker,) = (await both.ours.get("/api/v1/workers")).json()["items"]
    assert (worker["id"], worker["host"], worker["queues"]) == ("w7", "http", ["mail"])
    assert (worker["kinds"], worker["labels"]) == (["send"], ["v2"])
    assert (worker["concurrency"], worker["batch"], worker["lease_ms"]) == (1, 1, 60_000)
    assert (worker["busy_count"], worker["ahead_count"]) == (0, 0)
    assert (await both.theirs.get("/api/v1/workers")).json()["items"] == []


async def test_workers_say_how_many_jobs_they_run(both: Neighbours) -> None:
    for _ in range(5):
        await make(both)
    asked = {"worker": "w7", "limit": 4, "concurrency": 3}
    assert len((await both.ours.post(LEASES, json=asked)).json()["items"]) == 4
    (worker,) = (await both.ours.get("/api/v1/workers")).json()["items"]
    assert (worker["concurrency"], worker["batch"]) == (3, 4)
    assert (worker["busy_count"], worker["ahead_count"]) == (3, 1)
    wrong = {"worker": "w7", "concurrency": 0}
    assert field_of(await both.ours.post(LEASES, json=wrong)) == "concurrency"


async def test_the_audit_log_comes_newest_first_in_pages(both: Neighbours) -> None:
    jobs = [await make(both) for _ in range(3)]
    for job in jobs:
        await both.ours.post(f"{JOBS}/{job['id']}/cancel")
    page = (await both.ours.get("/api/v1/audit?limit=2")).json()
    rest = (await both.ours.get("/api/v1/audit", params={"cursor": page["next_cursor"]})).json()
    ids = [it["id"] for it in (*page["items"], *rest["items"])]
    assert (len(ids), sorted(ids, reverse=True), rest["has_more"]) == (3, ids, False)
    one = (await both.ours.get(f"/api/v1/audit?job_id={jobs[1]['id']}")).json()["items"]
    assert [it["job_ids"] for it in one] == [[jobs[1]["id"]]]
    assert (await both.ours.get("/api/v1/audit?action=retry")).json()["items"] == []
    assert field_of(await both.ours.get("/api/v1/audit?cursor=x")) == "cursor"
    assert field_of(await both.ours.get("/api/v1/audit?job_id=x")) == "job_id"


async def test_another_tenant_sees_none_of_it(neighbours: Neighbours) -> None:
    dead = await make_dead(neighbours)
    await neighbours.ours.post(f"{JOBS}/{dead['id']}/retry")
    theirs = neighbours.theirs
    for path in ("why", "graph", "attempts"):
        assert (await theirs.get(f"{JOBS}/{dead['id']}/{path}")).status_code == 404
        assert (await neighbours.ours.get(f"{JOBS}/{NO_ID}/{path}")).status_code == 404
    assert (await theirs.get(f"{JOBS}/search?text=a")).json()["items"] == []
    assert (await theirs.get(f"{JOBS}/suggest?q=kind:")).json()["items"] == []
    assert (await theirs.get(f"{JOBS}/search?text={dead['id']}")).json()["items"] == []
    answer = (await theirs.get("/api/v1/overview")).json()
    assert set(answer["counts"].values()) == {0}
    assert (answer["alarms"], answer["queues"], answer["failures"]) == ([], [], [])
    assert (await theirs.get("/api/v1/queues")).json()["items"] == []
    assert (await theirs.get("/api/v1/audit")).json()["items"] == []


async def test_looking_needs_the_scope_to_read(neighbours: Neighbours) -> None:
    job = await make(neighbours)
    async with neighbours.with_only(Scope.WRITE, Scope.OPERATE) as blind:
        for path in (
            *(f"{JOBS}/{job['id']}/{it}" for it in ("why", "graph", "attempts")),
            *(f"{JOBS}/{it}" for it in ("search", "counts", "suggest")),
            *(f"/api/v1/{it}" for it in ("overview", "queues", "workers", "throughput", "audit")),
        ):
            assert (await blind.get(path)).status_code == 403, path
