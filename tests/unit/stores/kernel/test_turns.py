"""Tenants take turns."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.stores.kernel.turns import order_turns, share_out, take_turns

COUNTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 40), min_size=1)


def serve(waiting: Mapping[str, int], limit: int, after: str = "") -> list[str]:
    left = dict(waiting)

    def take(tenant: str, count: int) -> list[str]:
        given_count = min(count, left[tenant])
        left[tenant] -= given_count
        return [tenant] * given_count

    return take_turns(order_turns(waiting, after), limit, take)


def test_turns_begin_after_the_last_tenant_and_come_round() -> None:
    assert order_turns(["b", "d", "a", "c"], "b") == ["c", "d", "a", "b"]
    assert order_turns(["b", "a"], "") == ["a", "b"]
    assert order_turns(["b", "a"], "z") == ["a", "b"]
    assert order_turns(["c", "a"], "b") == ["c", "a"]


def test_a_remainder_goes_to_those_whose_turn_it_is() -> None:
    assert "".join(serve({"a": 9, "b": 9, "c": 9}, 10)) == "aaabbbccca"
    assert "".join(serve({"a": 9, "b": 9, "c": 9}, 10, after="a")) == "bbbcccaaab"


def test_a_tenant_that_has_just_run_out_takes_no_place_from_the_next() -> None:
    assert "".join(serve({"a": 1, "b": 9}, 3)) == "abb"


def test_no_more_tenants_are_asked_than_there_are_places() -> None:
    asked: list[str] = []

    def take(tenant: str, count: int) -> list[str]:
        asked.append(tenant)
        return [tenant] * count

    assert take_turns([str(number) for number in range(1_000)], 3, take) == ["0", "1", "2"]
    assert asked == ["0", "1", "2"]


@given(COUNTS, st.integers(1, 100))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_every_place_is_used_and_none_gets_more_than_others_want(
    waiting: dict[str, int], limit: int
) -> None:
    got = Counter(serve(waiting, limit))
    assert got.total() == min(limit, sum(waiting.values()))
    unsated = {tenant for tenant in waiting if got[tenant] < waiting[tenant]}
    for tenant in unsated:
        assert got[tenant] >= max(got.values()) - 1


@given(COUNTS, st.integers(1, 12))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_over_many_leases_a_backlog_gains_nothing(tenants: dict[str, int], limit: int) -> None:
    waiting = dict.fromkeys(tenants, 10_000)
    got: Counter[str] = Counter()
    last = ""
    for _ in range(24):
        served = serve(waiting, limit, last)
        last = served[-1]
        got.update(served)
    counts = [got[tenant] for tenant in waiting]
    assert max(counts) - min(counts) <= 1


def test_what_tenants_offer_is_shared_out_and_those_that_may_have_more_are_known() -> None:
    offered = {"a": [1, 2], "b": [3], "c": [4, 5, 6, 7]}
    taken, asked = share_out(offered, 6)
    assert taken == [1, 2, 3, 4, 5, 6]
    assert {tenant for tenant in offered if asked[tenant] > len(offered[tenant])} == {"a", "b"}
    assert share_out({}, 3) == ([], {})
