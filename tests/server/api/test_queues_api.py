"""/queues, /errors and /tenants."""

from tests.server.api.conftest import make, make_dead
from tests.server.api.neighbours import Neighbours, make_client
from tests.server.service import field_of

from rota.auth.caller import Scope
from rota.events import JobFailed
from rota.telemetry.stats_recorder import StatsRecorder

QUEUES = "/api/v1/queues"
ERRORS = "/api/v1/errors"
TENANTS = "/api/v1/tenants"


async def test_a_queue_is_paused_limited_and_resumed(neighbours: Neighbours) -> None:
    both = neighbours
    await make(both)
    paused = await both.ours.post(f"{QUEUES}/mail/pause", json={"why": "it is down"})
    assert paused.status_code == 200, paused.text
    (pause,) = paused.json()["pauses"]
    assert (pause["whose"], pause["who"], pause["why"]) == ("own", "ours tester", "it is down")
    await both.ours.put("/api/v1/limits", json={"queue": "mail", "running": 2})
    (mail,) = (await both.ours.get(QUEUES)).json()["items"]
    assert (mail["queue"], mail["due_count"], len(mail["pauses"])) == ("mail", 1, 1)
    assert mail["limits"][0]["running"] == 2
    listed = (await both.ours.get("/api/v1/limits")).json()["items"]
    assert [(it["running"], it["pause"]["who"]) for it in listed] == [(2, "ours tester")]
    assert (await both.theirs.get(QUEUES)).json()["items"] == []
    assert (await both.theirs.get(f"{QUEUES}/mail")).status_code == 404
    resumed = await both.ours.post(f"{QUEUES}/mail/resume", json={})
    assert (resumed.json()["pauses"], resumed.json()["limits"][0]["running"]) == ([], 2)
    audit = (await both.ours.get("/api/v1/audit")).json()["items"]
    actions = sorted(it["action"] for it in audit)
    assert actions == ["pause_queue", "resume_queue", "set_limit"]


async def test_an_autoscaler_reads_how_many_jobs_need_a_worker(neighbours: Neighbours) -> None:
    async def load(queue: str = "mail") -> tuple[int, int, int]:
        found = (await neighbours.ours.get(f"{QUEUES}/{queue}/load")).json()
        return found["load"], found["due_count"], found["running_count"]

    assert await load() == (0, 0, 0)  # known or not: workers start from zero
    for _ in range(3):
        await make(neighbours)
    await neighbours.ours.post(
        "/api/v1/leases", json={"worker": "one", "queues": ["mail"], "limit": 1}
    )
    assert await load() == (3, 2, 1)
    await neighbours.ours.post(f"{QUEUES}/mail/pause", json={})
    assert await load() == (1, 2, 1)  # what runs finishes; nothing else starts
    assert await load("other") == (0, 0, 0)
    assert (await neighbours.theirs.get(f"{QUEUES}/mail/load")).json()["load"] == 0
    assert field_of(await neighbours.ours.get(f"{QUEUES}/no queue/load")) == "queue"


async def test_a_queue_of_all_tenants_is_paused_by_admins_only(neighbours: Neighbours) -> None:
    async with neighbours.with_only(Scope.READ, Scope.OPERATE) as weak:
        everyone = {"whose": "all"}
        assert (await weak.post(f"{QUEUES}/mail/pause", json=everyone)).status_code == 403
        assert (await weak.post(f"{QUEUES}/mail/pause", json={})).status_code == 200
    await neighbours.theirs.post(f"{QUEUES}/mail/pause", json=everyone)
    whose = (await neighbours.ours.get(f"{QUEUES}/mail")).json()["pauses"]
    assert sorted(it["whose"] for it in whose) == ["all", "own"]
    async with neighbours.with_only(Scope.READ) as reader:
        assert (await reader.post(f"{QUEUES}/mail/resume", json={})).status_code == 403
    assert field_of(await neighbours.ours.post(f"{QUEUES}/no queue/pause", json={})) == "queue"


async def test_a_group_of_errors_is_shown_retried_and_discarded(neighbours: Neighbours) -> None:
    made = [await make_dead(neighbours) for _ in range(2)]
    stats = StatsRecorder(neighbours.service.store, neighbours.service.clock)
    for job in made:
        stats.observe(
            JobFailed(
                tenant="ours",
                job_id=job["id"],
                kind=job["kind"],
                queue="mail",
                attempt=1,
                outcome="failed",
                state="dlq",
                wait_ms=1.0,
                duration_ms=1.0,
                err_code="KeyError",
                error="KeyError: 'x'",
                due_at=neighbours.service.clock.now(),
            )
        )
    await stats.flush()
    (group,) = (await neighbours.ours.get(ERRORS)).json()["items"]
    assert (group["name"], group["count"], group["dead_count"]) == ("KeyError", 2, 2)
    path = f"{ERRORS}/{group['id']}"
    assert len((await neighbours.ours.get(path)).json()["letter_ids"]) == 2
    planned = (await neighbours.ours.post(f"{path}/retry", json={})).json()
    assert (planned["is_dry_run"], planned["count"]) == (True, 2)
    done = (await neighbours.ours.post(f"{path}/retry", json={"dry_run": False})).json()
    assert (done["is_dry_run"], done["count"]) == (False, 2)
    again = await neighbours.ours.post(f"{path}/discard", json={"dry_run": False})
    assert again.json()["count"] == 0
    assert (await neighbours.theirs.get(ERRORS)).json()["items"] == []
    assert (await neighbours.theirs.get(path)).status_code == 404
    assert (await neighbours.ours.get(f"{ERRORS}?kind=other")).json()["items"] == []


async def test_tenants_are_compared_by_admins_of_the_default_tenant_only(
    neighbours: Neighbours,
) -> None:
    refused = await neighbours.ours.get(TENANTS)
    assert refused.status_code == 403
    assert 'of the tenant "default"' in refused.json()["message"]
    async with make_client(neighbours.service, "default", [Scope.READ]) as reader:
        assert (await reader.get(TENANTS)).status_code == 403
    async with make_client(neighbours.service, "default") as admin:
        items = (await admin.get(f"{TENANTS}?hours=24")).json()["items"]
    assert [it["tenant"] for it in items] == ["default"]
