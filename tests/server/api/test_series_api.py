"""/series: list, detail, pause, resume, run now, cancel, preview."""

from datetime import UTC, datetime, timedelta
from threading import Thread, current_thread, main_thread
from typing import Any

import pytest
from tests.server.api.conftest import make
from tests.server.api.neighbours import Neighbours
from tests.server.service import NO_ID, field_of

from rota.auth.caller import Scope
from rota.rail.jobs import preview_series
from rota.server.api import series

SERIES = "/api/v1/series"
DAILY = {"cron": "0 9 * * *", "zone": "Europe/London"}


async def test_series_are_listed_with_their_rule_in_words_and_both_clocks(
    both: Neighbours,
) -> None:
    made = await make(both, recurrence=DAILY, name="digest")
    await make(both)
    page = (await both.ours.get(SERIES)).json()
    (series,) = page["items"]
    assert (series["id"], series["name"], page["has_more"]) == (made["id"], "digest", False)
    assert series["description"] == "At 09:00 every day"
    first = series["occurrences"][0]
    assert first == {
        "at": "2026-05-02T08:00:00Z",
        "local": "2026-05-02T09:00:00+01:00",
        "note": None,
    }
    detail = (await both.ours.get(f"{SERIES}/{made['id']}")).json()
    assert (detail["series"]["id"], detail["runs"]) == (made["id"], [])


async def test_a_series_is_paused_and_resumed(both: Neighbours) -> None:
    made = await make(both, recurrence={"interval": "1h"})
    url = f"{SERIES}/{made['id']}"
    paused = (await both.ours.post(f"{url}/pause", json={"why": "quiet"})).json()["series"]
    assert (paused["is_paused"], paused["next_at"]) == (True, None)
    await both.service.clock.advance(timedelta(hours=2, minutes=30))
    resumed = (await both.ours.post(f"{url}/resume")).json()["series"]
    assert (resumed["is_paused"], resumed["next_at"]) == (False, "2026-05-01T15:00:00Z")
    log = (await both.ours.get("/api/v1/audit")).json()["items"]
    assert [(it["action"], it["why"]) for it in log] == [("resume", ""), ("pause", "quiet")]


async def test_missed_occurrences_are_caught_up_on_request(both: Neighbours) -> None:
    made = await make(both, recurrence=DAILY)
    url = f"{SERIES}/{made['id']}"
    await both.ours.post(f"{url}/pause")
    await both.service.clock.advance(timedelta(days=1))
    resumed = (await both.ours.post(f"{url}/resume?catch_up=true")).json()["series"]
    assert resumed["next_at"] == "2026-05-02T08:00:00Z"


async def test_the_next_occurrence_is_run_now_and_a_series_is_ended(both: Neighbours) -> None:
    made = await make(both, recurrence=DAILY)
    url = f"{SERIES}/{made['id']}"
    moved = (await both.ours.post(f"{url}/run-now")).json()["series"]
    assert moved["next_at"] == "2026-05-01T12:00:00Z"
    assert (await both.ours.post(f"{url}/cancel")).status_code == 200
    assert (await both.ours.get(SERIES)).json()["items"] == []
    for act in ("pause", "resume", "run-now", "cancel"):
        assert (await both.ours.post(f"{url}/{act}")).status_code == 404


async def test_a_rule_is_tried_out_with_the_changes_of_the_clocks(neighbours: Neighbours) -> None:
    rule = {"cron": "30 1 * * *", "zone": "Europe/London", "start": "2026-10-24T12:00:00Z"}
    answer = await neighbours.ours.post(f"{SERIES}/preview", json={"recurrence": rule, "count": 2})
    assert answer.status_code == 200, answer.text
    first, second = answer.json()["occurrences"]
    assert (first["local"], first["note"]) == (
        "2026-10-25T01:30:00+01:00",
        "clocks go back: first 01:30",
    )
    assert second["local"] == "2026-10-25T01:30:00Z"
    gap = {"cron": "30 1 * * *", "zone": "Europe/London", "start": "2027-03-27T12:00:00Z"}
    found = (await neighbours.ours.post(f"{SERIES}/preview", json={"recurrence": gap})).json()
    assert found["skipped"] == ["2027-03-28 01:30 does not exist: clocks go forward 01:00 → 02:00"]


async def test_a_rule_is_tried_out_beside_the_event_loop(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rare rule takes a while, and other requests do not wait for it."""
    threads: list[Thread] = []

    def note(*given: Any) -> Any:
        threads.append(current_thread())
        return preview_series(*given)

    monkeypatch.setattr(series, "preview_series", note)
    rare = "FREQ=SECONDLY;INTERVAL=7919;BYHOUR=3;BYMINUTE=7;BYSECOND=11"
    order = {"recurrence": {"rrule": rare, "zone": "America/New_York"}, "count": 3}
    answer = (await neighbours.ours.post(f"{SERIES}/preview", json=order)).json()
    assert len(answer["occurrences"]) == 3
    assert threads
    assert main_thread() not in threads


async def test_another_tenant_sees_and_touches_none(neighbours: Neighbours) -> None:
    made = await make(neighbours, recurrence=DAILY)
    theirs, url = neighbours.theirs, f"{SERIES}/{made['id']}"
    assert (await theirs.get(SERIES)).json()["items"] == []
    assert (await theirs.get(url)).status_code == 404
    for act in ("pause", "resume", "run-now", "cancel"):
        assert (await theirs.post(f"{url}/{act}")).status_code == 404
    assert (await neighbours.ours.get(url)).status_code == 200


async def test_a_job_without_recurrence_is_not_a_series(neighbours: Neighbours) -> None:
    plain = await make(neighbours)
    for job_id in (plain["id"], NO_ID):
        for act in ("pause", "resume", "run-now", "cancel"):
            answer = await neighbours.ours.post(f"{SERIES}/{job_id}/{act}")
            assert answer.status_code == 404, (act, answer.text)


async def test_bad_rules_name_their_field_and_scopes_are_asked_for(neighbours: Neighbours) -> None:
    made = await make(neighbours, recurrence=DAILY)
    for order, field in (
        ({}, "recurrence"),
        ({"recurrence": {}}, "recurrence"),
        ({"recurrence": {"cron": "x"}}, "recurrence.cron"),
        ({"recurrence": {**DAILY, "zone": "Mars"}}, "recurrence.zone"),
        ({"recurrence": DAILY, "count": 0}, "count"),
    ):
        answer = await neighbours.ours.post(f"{SERIES}/preview", json=order)
        assert field_of(answer) == field
    assert field_of(await neighbours.ours.get(f"{SERIES}?cursor=x")) == "cursor"
    async with neighbours.with_only(Scope.READ) as reader:
        assert (await reader.get(SERIES)).status_code == 200
        for act in ("pause", "resume", "run-now", "cancel"):
            assert (await reader.post(f"{SERIES}/{made['id']}/{act}")).status_code == 403


async def test_catch_up_and_jitter_are_taken_and_shown(both: Neighbours) -> None:
    rule = DAILY | {"catch_up": "skip", "jitter": "5m"}
    made = await make(both, recurrence=rule)
    series = (await both.ours.get(f"{SERIES}/{made['id']}")).json()["series"]
    shown = series["recurrence"]
    assert (shown["catch_up"], shown["jitter"]) == ("skip", "5m")
    assert series["description"] == "At 09:00 every day, each up to 5m later"
    later = datetime.fromisoformat(made["run_at"]) - datetime(2026, 5, 2, 8, tzinfo=UTC)
    assert timedelta(0) < later <= timedelta(minutes=5)
    why = (await both.ours.get(f"/api/v1/jobs/{made['id']}/why")).json()
    assert "jitter" in [it["code"] for it in why["reasons"]]


async def test_a_series_at_the_end_of_the_calendar_is_refused(neighbours: Neighbours) -> None:
    rule = {"interval": "1m", "start": "9999-12-31T23:58:00Z", "zone": "Asia/Tokyo"}
    job = {"name": "n", "queue": "q", "recurrence": rule}
    answer = await neighbours.ours.post("/api/v1/jobs", json=job)
    assert answer.status_code == 400
    assert field_of(answer) == "recurrence.start"
    assert (await neighbours.ours.get(SERIES)).status_code == 200


async def test_a_jitter_longer_than_the_interval_is_refused(neighbours: Neighbours) -> None:
    rule = {"interval": "1m", "jitter": "2m"}
    answer = await neighbours.ours.post(
        "/api/v1/jobs", json={"name": "n", "queue": "q", "recurrence": rule}
    )
    assert (answer.status_code, field_of(answer)) == (400, "recurrence.jitter")
