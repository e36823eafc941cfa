"""Tokens are taken, and come back with time."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rota.policy.limits import Bucket, Rate, give_back_tokens, next_token_at, take_tokens

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TWO_A_SECOND = Rate(count=2, per=SECOND, burst=5)


def empty(at: datetime = NOW) -> Bucket:
    return Bucket(0, at)


def test_a_bucket_is_full_at_first() -> None:
    taken = take_tokens(TWO_A_SECOND, None, 99, NOW)
    assert taken == (5, empty())


def test_no_more_is_taken_than_wanted() -> None:
    taken = take_tokens(TWO_A_SECOND, None, 2, NOW)
    assert taken.token_count == 2
    assert take_tokens(TWO_A_SECOND, taken.bucket, 99, NOW).token_count == 3
    assert take_tokens(TWO_A_SECOND, None, -1, NOW).token_count == 0


def test_time_fills_it_up_to_the_burst() -> None:
    assert take_tokens(TWO_A_SECOND, empty(), 99, NOW + SECOND).token_count == 2
    assert take_tokens(TWO_A_SECOND, empty(), 99, NOW + 1000 * SECOND).token_count == 5


def test_part_of_a_token_is_kept() -> None:
    third = timedelta(milliseconds=300)
    first = take_tokens(TWO_A_SECOND, empty(), 9, NOW + third)
    second = take_tokens(TWO_A_SECOND, first.bucket, 9, NOW + 2 * third)
    assert (first.token_count, second.token_count) == (0, 1)
    assert next_token_at(TWO_A_SECOND, second.bucket, NOW) == NOW + SECOND


def test_unused_tokens_go_back_as_far_as_there_is_room() -> None:
    taken = take_tokens(TWO_A_SECOND, None, 4, NOW)
    back = give_back_tokens(TWO_A_SECOND, taken.bucket, 3, NOW)
    assert take_tokens(TWO_A_SECOND, back, 99, NOW).token_count == 4
    over = give_back_tokens(TWO_A_SECOND, back, 99, NOW)
    assert take_tokens(TWO_A_SECOND, over, 99, NOW).token_count == 5


def test_the_next_token_is_known_to_the_microsecond() -> None:
    rate = Rate(count=3, per=SECOND)
    at = next_token_at(rate, empty(), NOW)
    assert at == NOW + timedelta(microseconds=333_334)
    assert take_tokens(rate, empty(), 1, at).token_count == 1
    assert take_tokens(rate, empty(), 1, at - timedelta(microseconds=1)).token_count == 0
    assert next_token_at(rate, None, NOW) == NOW


def test_a_clock_that_is_a_little_behind_wins_nothing() -> None:
    taken = take_tokens(TWO_A_SECOND, empty(NOW + SECOND), 9, NOW)
    assert taken == (0, empty(NOW + SECOND))


def test_a_bucket_from_a_future_that_never_was_begins_now() -> None:
    taken = take_tokens(TWO_A_SECOND, empty(NOW + timedelta(days=1)), 9, NOW)
    assert taken == (0, empty())
    assert take_tokens(TWO_A_SECOND, taken.bucket, 9, NOW + SECOND).token_count == 2


def test_a_bucket_that_held_more_under_another_rate_is_cut() -> None:
    assert take_tokens(TWO_A_SECOND, Bucket(10**12, NOW), 99, NOW).token_count == 5
    assert take_tokens(TWO_A_SECOND, Bucket(-5, NOW), 99, NOW + SECOND).token_count == 2


@given(
    st.builds(
        Rate,
        count=st.integers(1, 20),
        per=st.integers(1, 10**7).map(lambda it: timedelta(microseconds=it)),
        burst=st.integers(1, 9),
    ),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 5)), min_size=1, max_size=30),
)
def test_over_any_time_no_more_is_taken_than_the_rate_allows(
    rate: Rate, steps: list[tuple[int, int]]
) -> None:
    bucket: Bucket | None = None
    now, total = NOW, 0
    for wait, wanted in steps:
        now += timedelta(microseconds=wait)
        taken = take_tokens(rate, bucket, wanted, now)
        bucket, total = taken.bucket, total + taken.token_count
        assert total <= rate.most + (now - NOW) * rate.count // rate.per
