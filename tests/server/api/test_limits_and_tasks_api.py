"""/limits and /tasks: what concerns the whole installation."""

from typing import Any

import pytest
from tests.server.api.neighbours import Neighbours
from tests.server.service import START, field_of

from rota.auth.caller import Scope
from rota.scheduler.storage import TASKS as KEPT
from rota.stores.protocol import DocumentWrite
from rota.testing import seed_tasks

LIMITS = "/api/v1/limits"
TASKS = "/api/v1/tasks"
REPORT = {"name": "report", "cronExpression": "0 9 * * 1-5", "retryDelayMs": 60_000}


async def test_limits_are_set_listed_and_cleared(both: Neighbours) -> None:
    rate = {"count": 10, "per_seconds": 60, "burst": None}
    await both.ours.put(LIMITS, json={"running": 2, "rate": rate, "why": "gently"})
    await both.ours.put(LIMITS, json={"whose": "all", "queue": "mail", "ageing_seconds": 60})
    ours = (await both.ours.get(LIMITS)).json()["items"]
    assert [(it["whose"], it["queue"], it["running"]) for it in ours] == [
        ("all", "mail", None),
        ("own", None, 2),
    ]
    assert (ours[1]["rate"], ours[0]["ageing_seconds"]) == (rate, 60.0)
    theirs = (await both.theirs.get(LIMITS)).json()["items"]
    assert [it["whose"] for it in theirs] == ["all"]
    assert (await both.theirs.delete(LIMITS)).status_code == 204
    assert len((await both.ours.get(LIMITS)).json()["items"]) == 2
    await both.ours.delete(LIMITS)
    await both.ours.delete(f"{LIMITS}?whose=all&queue=mail")
    assert (await both.ours.get(LIMITS)).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "running"),
        ({"running": -1}, "running"),
        ({"rate": {"count": 0, "per_seconds": 1}}, "rate.count"),
        ({"rate": {"count": 1}}, "rate.per_seconds"),
        ({"rate": {"count": 1, "per_seconds": 10**9}}, "rate.per_seconds"),
        ({"ageing_seconds": 60}, "ageing_seconds"),
        ({"running": 1, "queue": "no queue"}, "queue"),
        ({"running": 1, "whose": "yours"}, "whose"),
    ],
)
async def test_bad_limits_name_their_field(
    neighbours: Neighbours, body: dict[str, Any], field: str
) -> None:
    assert field_of(await neighbours.ours.put(LIMITS, json=body)) == field


async def test_limits_are_changed_by_admins_only(neighbours: Neighbours) -> None:
    async with neighbours.with_only(Scope.READ, Scope.WRITE, Scope.OPERATE) as weak:
        assert (await weak.get(LIMITS)).status_code == 200
        assert (await weak.put(LIMITS, json={"running": 1})).status_code == 403
        assert (await weak.delete(LIMITS)).status_code == 403


async def test_tasks_are_listed_and_explained(both: Neighbours) -> None:
    await seed_tasks(both.service.store, [REPORT])
    (task,) = (await both.ours.get(f"{TASKS}?zone=Europe/London")).json()["items"]
    assert (task["name"], task["cron"]) == ("report", "0 9 * * 1-5")
    assert task["occurrences"][0] == "2026-05-04T08:00:00Z"
    why = await both.ours.get(f"{TASKS}/why?name=report&zone=Europe/London&at=2026-05-03T08:00:00Z")
    answer = why.json()
    assert (answer["answer"], answer["next_at"]) == ("will not run", "2026-05-04T08:00:00Z")
    assert (await both.ours.get(f"{TASKS}/why?name=nobody")).status_code == 404


async def test_why_is_asked_at_a_time_on_the_wall_too(both: Neighbours) -> None:
    await seed_tasks(both.service.store, [{**REPORT, "cronExpression": "30 1 * * *"}])
    why = f"{TASKS}/why?name=report&zone=Europe/London&wall="
    answer = (await both.ours.get(f"{why}2027-03-27T01:30")).json()
    assert (answer["answer"], answer["at"]) == ("will run", "2027-03-27T01:30:00Z")
    skipped = (await both.ours.get(f"{why}2027-03-28T01:30")).json()
    assert (skipped["answer"], skipped["at"]) == ("will not run", None)
    assert "does not exist in Europe/London" in skipped["reasons"][0]


@pytest.mark.parametrize(
    "at",
    [
        "wall=0001-01-01T00:00",
        "wall=9999-12-31T23:59:59",
        "at=0001-01-01T00:00:00%2B14:00",
        "at=9999-12-31T23:59:59-14:00",
    ],
)
@pytest.mark.parametrize("zone", ["Europe/London", "Pacific/Kiritimati", "Pacific/Honolulu"])
async def test_the_ends_of_the_calendar_raise_no_error(
    both: Neighbours, at: str, zone: str
) -> None:
    await seed_tasks(both.service.store, [REPORT])
    answer = await both.ours.get(f"{TASKS}/why?name=report&zone={zone}&{at}")
    assert answer.status_code in {200, 400}


async def test_a_task_of_a_dead_scheduler_is_not_shown_as_running(both: Neighbours) -> None:
    running = {"running": True, "lastAttemptAt": START, "schedulerIdentifier": "gone"}
    await seed_tasks(both.service.store, [REPORT, {**REPORT, **running, "name": "sync"}])
    body = b"no record"
    await both.service.store.write_all([DocumentWrite(KEPT, "odd", None, body)])
    listed = (await both.ours.get(TASKS)).json()
    assert [(it["name"], it["is_interrupted"]) for it in listed["items"]] == [
        ("report", False),
        ("sync", True),
    ]
    assert (listed["scheduler_count"], listed["unreadable"]) == (0, ["odd"])


async def test_a_plan_of_tasks_and_a_wish_to_run_one(both: Neighbours) -> None:
    await seed_tasks(both.service.store, [REPORT])
    wanted = {"registrations": [{"name": "new", "cron": "0 * * * *"}]}
    plan = (await both.ours.post(f"{TASKS}/plan", json=wanted)).json()
    assert {it["name"]: it["standing"] for it in plan["tasks"]} == {
        "new": "new",
        "report": "removed",
    }
    later = {"registrations": [{"name": "report", "cron": "0 9 * * 1-5", "retry_delay_ms": 1}]}
    (changed,) = (await both.ours.post(f"{TASKS}/plan", json=later)).json()["tasks"]
    assert changed["changes"] == [{"field": "retryDelayMs", "before": 60_000, "after": 1}]
    order = {"name": "report", "why": "asked for"}
    asked = await both.ours.post(f"{TASKS}/run-now", json=order)
    assert (asked.status_code, asked.json()) == (202, {"name": "report", "scheduler_count": 0})
    assert (await both.ours.post(f"{TASKS}/run-now", json={"name": "nobody"})).status_code == 404
    (act,) = (await both.ours.get("/api/v1/audit")).json()["items"]
    assert (act["action"], act["why"], act["details"]) == (
        "run_task",
        "asked for",
        {"task": "report"},
    )


async def test_bad_questions_about_tasks_name_their_field(neighbours: Neighbours) -> None:
    ours = neighbours.ours
    assert field_of(await ours.get(f"{TASKS}?zone=Mars")) == "zone"
    assert field_of(await ours.get(f"{TASKS}/why")) == "name"
    assert field_of(await ours.get(f"{TASKS}/why?name=x&at=soon")) == "at"
    for wall in ("soon", "2027-03-28T01:30Z", "2027-03-28T01:30&at=2027-03-28T01:30:00Z"):
        assert field_of(await ours.get(f"{TASKS}/why?name=x&wall={wall}")) == "wall"
    bad = {"registrations": [{"name": "x", "cron": "nonsense"}]}
    assert field_of(await ours.post(f"{TASKS}/plan", json=bad)) == "registrations"
    twice = {"registrations": [{"name": "x", "cron": "* * * * *"}] * 2}
    assert field_of(await ours.post(f"{TASKS}/plan", json=twice)) == "registrations"
    nameless = {"registrations": [{"name": "", "cron": "* * * * *"}]}
    assert field_of(await ours.post(f"{TASKS}/plan", json=nameless)) == "registrations[0].name"


async def test_tasks_are_for_admins_only(neighbours: Neighbours) -> None:
    async with neighbours.with_only(Scope.READ, Scope.WRITE, Scope.OPERATE) as weak:
        assert (await weak.get(TASKS)).status_code == 403
        assert (await weak.get(f"{TASKS}/why?name=x")).status_code == 403
        assert (await weak.post(f"{TASKS}/plan", json={"registrations": []})).status_code == 403
        assert (await weak.post(f"{TASKS}/run-now", json={"name": "x"})).status_code == 403
