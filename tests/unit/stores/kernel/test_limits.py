"""Who gets the places of a lease under limits."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rota.stores.kernel.limits import (
    Candidate,
    Room,
    Standing,
    choose_jobs,
    make_candidate,
    part_of,
)
from rota.stores.protocol import Cap

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def line(tenant: str, queue: str, count: int, priority: int = 5) -> list[Candidate]:
    return [
        Candidate((-priority, NOW, f"{tenant}{queue}{number:02}"), tenant, queue)
        for number in range(count)
    ]


def ids(chosen: list[Candidate]) -> list[str]:
    return [each.job_id for each in chosen]


def test_tenants_are_served_one_by_one_up_to_their_part() -> None:
    candidates = [*line("a", "x", 3), *line("b", "x", 3)]
    chosen = choose_jobs(["b", "a"], candidates, 5, Room((), {}))
    assert ids(chosen) == ["bx00", "ax00", "bx01", "ax01"]


def test_a_round_ends_when_there_are_enough() -> None:
    candidates = [*line("a", "x", 1), *line("b", "x", 1), *line("c", "x", 1)]
    assert ids(choose_jobs(["c", "a", "b"], candidates, 2, Room((), {}))) == ["cx00", "ax00"]


def test_a_full_queue_is_passed_over_in_the_middle_of_a_round() -> None:
    candidates = [*line("a", "x", 4, priority=9), *line("a", "y", 4), *line("b", "x", 4)]
    room = Room([Cap(queue="x", running=2)], {})
    chosen = choose_jobs(["a", "b"], candidates, 8, room)
    assert ids(chosen) == ["ax00", "bx00", "ay00", "ay01", "ay02"]


def test_the_key_of_a_candidate_counts_its_age() -> None:
    job = Standing("id", "a", "x", 3, NOW - timedelta(minutes=5))
    assert make_candidate(job, {"x": timedelta(minutes=2)}, NOW).key[0] == -5
    assert make_candidate(job, {"y": timedelta(minutes=2)}, NOW).key[0] == -3
    assert make_candidate(job, None, NOW).key[0] == -3


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), min_size=1),
    st.integers(1, 20),
    st.integers(0, 12),
)
def test_no_round_gives_more_than_there_is_room_for(
    counts: dict[str, int], limit: int, places: int
) -> None:
    part = part_of(limit, len(counts))
    candidates = [each for it, count in counts.items() for each in line(it, "x", min(count, part))]
    chosen = choose_jobs(list(counts), candidates, limit, Room([Cap(running=places)], {}))
    assert len(chosen) == min(limit, places, len(candidates))
    assert len(set(chosen)) == len(chosen)


def test_a_tenant_gets_one_job_in_a_round_when_there_are_fewer_than_tenants() -> None:
    assert [part_of(limit, 5) for limit in (1, 4, 5, 9, 10)] == [1, 1, 1, 1, 2]
