"""/throughput: what workers have counted, for those whose jobs it was."""

from datetime import timedelta

import pytest
from tests.server.api.conftest import make
from tests.server.api.neighbours import Neighbours
from tests.server.service import field_of

from rota import Worker
from rota.telemetry.stats_recorder import StatsRecorder
from rota.worker import Context

THROUGHPUT = "/api/v1/throughput"


async def work(neighbours: Neighbours, *, fails: bool = False) -> None:
    """Have a job of ours end, and counted, in this minute."""

    async def handle(_context: Context) -> None:
        if fails:
            raise ValueError("out of paper")

    await make(neighbours, kind="print")
    store, clock = neighbours.service.store, neighbours.service.clock
    worker, recorder = Worker(store, {"print": handle}, clock=clock), StatsRecorder(store, clock)
    recorder.follow(worker.events)
    await worker.run_once()
    await recorder.flush()


async def test_throughput_has_every_minute_and_the_total(both: Neighbours) -> None:
    await work(both)
    await work(both, fails=True)
    await both.service.clock.advance(timedelta(minutes=2))
    await work(both)  # and what had failed is tried again
    until = both.service.clock.now() + timedelta(minutes=1)
    answer = (await both.ours.get(f"{THROUGHPUT}?until={until:%Y-%m-%dT%H:%M:%SZ}")).json()
    assert (answer["since"], answer["until"]) == ("2026-05-01T11:03:00Z", "2026-05-01T12:03:00Z")
    assert [(it["at"], it["succeeded"], it["failed"]) for it in answer["minutes"]] == [
        ("2026-05-01T12:00:00Z", 1, 1),
        ("2026-05-01T12:02:00Z", 2, 0),
    ]
    total = answer["total"]
    assert [total[it] for it in ("succeeded", "failed", "dead", "deferred", "stalled")] == [
        3,
        1,
        0,
        0,
        0,
    ]
    assert (total["wait"]["count"], total["handler"]["count"]) == (4, 4)
    assert total["wait"]["p50_ms"] <= total["wait"]["p95_ms"] <= total["wait"]["longest_ms"]


async def test_without_ended_jobs_there_are_no_durations(both: Neighbours) -> None:
    answer = (await both.ours.get(THROUGHPUT)).json()
    assert (answer["since"], answer["until"]) == ("2026-05-01T11:00:00Z", "2026-05-01T12:00:00Z")
    assert answer["minutes"] == []
    assert (answer["total"]["succeeded"], answer["total"]["dead"]) == (0, 0)
    nothing = {"count": 0, "mean_ms": None, "longest_ms": 0}
    nothing |= dict.fromkeys(("p50_ms", "p95_ms", "p99_ms"))
    assert answer["total"]["wait"] == answer["total"]["handler"] == nothing


async def test_throughput_of_other_tenants_is_not_shown(neighbours: Neighbours) -> None:
    await work(neighbours)
    asked = f"{THROUGHPUT}?since=2026-05-01T12:00:00Z&until=2026-05-01T12:01:00Z"
    assert (await neighbours.ours.get(asked)).json()["total"]["succeeded"] == 1
    assert (await neighbours.theirs.get(asked)).json()["total"]["succeeded"] == 0


async def test_throughput_by_hour_reaches_a_month_back_and_names_kinds_and_queues(
    neighbours: Neighbours,
) -> None:
    await work(neighbours)
    asked = f"{THROUGHPUT}?step=hour&since=2026-04-05T12:00:00Z&until=2026-05-01T13:00:00Z"
    answer = (await neighbours.ours.get(asked)).json()
    assert (answer["minutes"], [it["at"] for it in answer["hours"]]) == (
        [],
        ["2026-05-01T12:00:00Z"],
    )
    assert sum(it["succeeded"] for it in answer["parts"]) == answer["total"]["succeeded"] == 1
    too_long = asked.replace("2026-04-05", "2026-03-05")
    assert field_of(await neighbours.ours.get(too_long)) == "since"


async def test_at_most_two_days_are_shown(neighbours: Neighbours) -> None:
    until = "until=2026-05-01T12:00:00Z"
    answer = await neighbours.ours.get(f"{THROUGHPUT}?{until}&since=2026-04-29T12:00:00Z")
    assert answer.status_code == 200
    longer = await neighbours.ours.get(f"{THROUGHPUT}?{until}&since=2026-04-29T11:59:59Z")
    assert field_of(longer) == "since"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=2026-05-01T12:00:00Z", "since"),
        ("since=2026-05-01T12:00:01Z&until=2026-05-01T12:00:00Z", "since"),
        ("since=soon", "since"),
        ("until=2026-05-01", "until"),
        ("until=0001-01-01T00:00:00Z", "until"),
        ("since=0001-01-01T00:00:00Z&until=0001-01-01T01:00:00Z", "until"),
        ("until=9999-12-31T23:59:59Z", "until"),
        ("minutes=5", "minutes"),
    ],
)
async def test_an_invalid_range_is_refused_by_name(
    neighbours: Neighbours, query: str, field: str
) -> None:
    assert field_of(await neighbours.ours.get(f"{THROUGHPUT}?{query}")) == field
