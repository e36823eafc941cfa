"""/series and /tasks: edit, backfill, calendar, pause and history, on each sort of store."""

from datetime import UTC, datetime, timedelta

from tests.server.api.conftest import make, take
from tests.server.api.neighbours import Neighbours
from tests.server.service import field_of

from rota.auth.caller import Scope
from rota.jobs import decide_complete
from rota.scheduler.declared import DECLARED, LATEST
from rota.stores.protocol import DocumentWrite
from rota.testing import seed_tasks

SERIES = "/api/v1/series"
TASKS = "/api/v1/tasks"
DAILY = {"cron": "0 9 * * *", "zone": "Europe/London"}
REPORT = {"name": "report", "cronExpression": "30 1 * * *", "retryDelayMs": 60_000}


async def complete_due(both: Neighbours) -> None:
    for job in await take(both.service):
        now = both.service.clock.now()
        await both.service.store.apply([decide_complete(job, now)], now)


async def test_a_series_is_edited_after_a_dry_run(both: Neighbours) -> None:
    made = await make(both, recurrence=DAILY, payload={"a": 1})
    url = f"{SERIES}/{made['id']}"
    order = {"recurrence": {**DAILY, "cron": "30 10 * * *"}, "priority": 7, "payload": {"a": 2}}
    plan = (await both.ours.patch(url, json={**order, "dry_run": True})).json()
    changes = {it["field"]: (it["before"], it["after"]) for it in plan["changes"]}
    assert changes["cron"] == ("0 9 * * *", "30 10 * * *")
    assert (changes["priority"], changes["payload"]) == ((5, 7), ({"a": 1}, {"a": 2}))
    assert plan["occurrences_before"][0]["at"] == "2026-05-02T08:00:00Z"
    assert plan["occurrences_after"][0]["at"] == "2026-05-02T09:30:00Z"
    assert (plan["is_applied"], plan["description_after"]) == (False, "At 10:30 every day")
    assert (await both.ours.get(url)).json()["series"]["recurrence"]["cron"] == "0 9 * * *"
    done = (await both.ours.patch(url, json={**order, "why": "later"})).json()
    assert done["is_applied"]
    series = (await both.ours.get(url)).json()["series"]
    assert (series["next_at"], series["id"]) == ("2026-05-02T09:30:00Z", made["id"])
    job = (await both.ours.get(f"/api/v1/jobs/{series['job_id']}")).json()
    assert (job["payload"], job["priority"]) == ({"a": 2}, 7)
    entry = (await both.ours.get("/api/v1/audit")).json()["items"][0]
    assert (entry["action"], entry["why"], entry["details"]["priority"]) == (
        "edit_series",
        "later",
        [5, 7],
    )


async def test_an_edit_keeps_the_phase_unless_the_rule_changes(both: Neighbours) -> None:
    made = await make(both, recurrence={"interval": "2h"})
    url = f"{SERIES}/{made['id']}"
    await both.service.clock.advance(timedelta(minutes=30))
    kept = {"recurrence": {"interval": "2h", "overlap": "queue"}}
    plan = (await both.ours.patch(url, json=kept)).json()
    assert [it["field"] for it in plan["changes"]] == ["overlap"]
    changed = {"recurrence": {"interval": "3h"}}
    plan = (await both.ours.patch(url, json=changed)).json()
    assert {it["field"] for it in plan["changes"]} == {"interval", "start", "overlap"}
    assert (await both.ours.patch(url, json={})).json()["changes"] == []


async def test_bad_edits_name_their_field_and_need_the_scope(neighbours: Neighbours) -> None:
    made = await make(neighbours, recurrence=DAILY)
    plain = await make(neighbours)
    url = f"{SERIES}/{made['id']}"
    for order, field in (
        ({"recurrence": {"cron": "x"}}, "recurrence.cron"),
        ({"recurrence": {**DAILY, "zone": "Mars"}}, "recurrence.zone"),
        ({"priority": 99}, "priority"),
    ):
        assert field_of(await neighbours.ours.patch(url, json=order)) == field
    assert (await neighbours.ours.patch(f"{SERIES}/{plain['id']}", json={})).status_code == 404
    assert (await neighbours.theirs.patch(url, json={"priority": 1})).status_code == 404
    async with neighbours.with_only(Scope.READ) as reader:
        assert (await reader.patch(url, json={"priority": 1})).status_code == 403
        assert (await reader.post(f"{url}/backfill", json={})).status_code == 403


async def test_a_backfill_creates_what_is_missing_once(both: Neighbours) -> None:
    start = "2026-04-28T00:00:00Z"
    made = await make(both, recurrence={**DAILY, "start": start}, payload={"x": 1})
    await both.ours.post(f"{SERIES}/{made['id']}/run-now")
    await complete_due(both)
    url = f"{SERIES}/{made['id']}/backfill"
    order = {"since": start, "until": "2026-05-01T12:00:00Z"}
    plan = (await both.ours.post(url, json={**order, "dry_run": True})).json()
    expected = [f"2026-04-{day}T08:00:00Z" for day in (29, 30)] + ["2026-05-01T08:00:00Z"]
    assert (plan["occurrences"], plan["left_out_count"]) == (expected, 1)
    assert (plan["is_applied"], plan["job_ids"]) == (False, [])
    answer = await both.ours.post(url, json={**order, "why": "outage"})
    assert answer.status_code == 200, answer.text
    done = answer.json()
    assert (done["is_applied"], len(done["job_ids"])) == (True, 3)
    jobs = await take(both.service)
    assert [(job.occurrence_at, job.payload) for job in jobs][:1] == [
        (datetime(2026, 4, 29, 8, tzinfo=UTC), {"x": 1})
    ]
    assert all(job.recurrence is None and job.origin == made["id"] for job in jobs)
    await complete_due(both)
    again = (await both.ours.post(url, json=order)).json()
    assert (again["occurrences"], again["left_out_count"]) == ([], 4)
    assert (await both.ours.get(SERIES)).json()["items"][0]["next_at"] == "2026-05-02T08:00:00Z"


async def test_a_backfill_of_the_future_or_of_too_much_is_refused(neighbours: Neighbours) -> None:
    made = await make(neighbours, recurrence={"cron": "* * * * *", "zone": "UTC"})
    url = f"{SERIES}/{made['id']}/backfill"
    for since, until, field in (
        ("2026-05-01T00:00:00Z", "2026-05-02T00:00:00Z", "until"),
        ("2026-05-01T11:00:00Z", "2026-05-01T10:00:00Z", "since"),
        ("0001-01-01T00:00:00Z", "2026-05-01T10:00:00Z", "since"),
        ("2026-04-01T00:00:00Z", "2026-05-01T10:00:00Z", "until"),
    ):
        answer = await neighbours.ours.post(url, json={"since": since, "until": until})
        assert field_of(answer) == field


async def test_past_runs_have_lateness_and_duration(both: Neighbours) -> None:
    made = await make(both, recurrence={"interval": "1h"})
    await both.service.clock.advance(timedelta(minutes=5))
    (job,) = await take(both.service)
    await both.service.clock.advance(timedelta(seconds=20))
    now = both.service.clock.now()
    await both.service.store.apply([decide_complete(job, now)], now)
    (run,) = (await both.ours.get(f"{SERIES}/{made['id']}?count=2")).json()["runs"]
    assert (run["late_seconds"], run["lasted_seconds"], run["attempt_count"]) == (300.0, 20.0, 1)


async def test_the_calendar_lists_runs_and_collisions(both: Neighbours) -> None:
    await make(both, name="one", recurrence={"cron": "0 18 * * *"})
    await make(both, name="two", recurrence={"cron": "0 6,18 * * *"})
    await make(both, name="often", recurrence={"interval": "1m"})
    paused = await make(both, name="held", recurrence={"cron": "0 18 * * *"})
    await both.ours.post(f"{SERIES}/{paused['id']}/pause")
    await seed_tasks(both.service.store, [{**REPORT, "cronExpression": "0 18 * * *"}])
    found = (await both.ours.get(f"{SERIES}/calendar")).json()
    assert [(it["at"][11:16], it["name"]) for it in found["entries"]] == [
        ("18:00", "one"),
        ("18:00", "report"),
        ("18:00", "two"),
        ("06:00", "two"),
    ]
    assert found["collisions"] == [
        {"at": "2026-05-01T18:00:00Z", "names": ["one", "report", "two"], "count": 1}
    ]
    assert [(it["name"], it["count"] > 1_000) for it in found["frequent"]] == [("often", True)]
    assert found["paused_count"] == 1
    async with both.with_only(Scope.READ) as reader:
        seen = (await reader.get(f"{SERIES}/calendar?days=7")).json()
        assert {it["source"] for it in seen["entries"]} == {"series"}
    assert field_of(await both.ours.get(f"{SERIES}/calendar?days=99")) == "days"


async def test_a_task_is_paused_and_resumed_with_who_and_why(both: Neighbours) -> None:
    await seed_tasks(both.service.store, [REPORT])
    paused = await both.ours.post(f"{TASKS}/pause", json={"name": "report", "why": "noise"})
    task = paused.json()["task"]
    assert (task["is_paused"], task["pause"]["why"]) == (True, "noise")
    why = (await both.ours.get(f"{TASKS}/why?name=report")).json()
    assert why["answer"] == "will not run"
    resumed = await both.ours.post(f"{TASKS}/resume", json={"name": "report", "catch_up": True})
    assert resumed.json()["task"]["is_paused"] is False
    log = (await both.ours.get("/api/v1/audit")).json()["items"]
    assert {it["action"] for it in log} == {"resume_task", "pause_task"}
    assert (await both.ours.post(f"{TASKS}/pause", json={"name": "x"})).status_code == 404
    async with both.with_only(Scope.READ, Scope.OPERATE) as weak:
        assert (await weak.post(f"{TASKS}/pause", json={"name": "report"})).status_code == 403
        assert (await weak.get(f"{TASKS}/history?name=report")).status_code == 403


async def test_tasks_of_the_polling_policy_are_explained_by_it(both: Neighbours) -> None:
    """On the night clocks go back in London, 01:30 counts once, also if the caller is in Tokyo."""
    await seed_tasks(both.service.store, [REPORT])
    body = b'{"zone": "Europe/London", "dialect": "posix-multiline", "fold": "first"}'
    await both.service.store.write_all([DocumentWrite(DECLARED, LATEST, None, body)])
    await both.service.clock.advance(timedelta(days=176))
    listed = (await both.ours.get(f"{TASKS}?zone=Asia/Tokyo")).json()
    assert (listed["zone"], listed["policy"]) == ("Europe/London", "polling")
    assert listed["items"][0]["occurrences"][:3] == [
        "2026-10-25T00:30:00Z",
        "2026-10-26T01:30:00Z",
        "2026-10-27T01:30:00Z",
    ]
    answer = (await both.ours.get(f"{TASKS}/why?name=report&at=2026-10-25T01:30:00Z")).json()
    assert answer["answer"] == "will not run"
    assert "only the first counts" in answer["reasons"][-1]
