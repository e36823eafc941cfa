"""The ids of jobs."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.jobs.arbitrary import always

from rota.errors import InvalidInputError
from rota.jobs import are_job_ids, derive_job_id, make_job_id, make_job_ids, normalize_job_id

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
INSTANTS = st.datetimes(
    min_value=datetime(1970, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    timezones=st.just(UTC),
)
BITS = st.integers(0, 2**80)


@always
@given(INSTANTS, BITS)
def test_an_id_is_a_uuid_of_version_7_that_knows_its_millisecond(now: datetime, bits: int) -> None:
    made = UUID(make_job_id(now, bits))
    assert str(made) == make_job_id(now, bits)
    assert made.version == 7
    assert made.variant == "specified in RFC 4122"
    elapsed = now - datetime(1970, 1, 1, tzinfo=UTC)
    assert made.int >> 80 == elapsed // timedelta(milliseconds=1)


@always
@given(INSTANTS, INSTANTS, BITS, BITS)
def test_ids_sort_by_the_microsecond_they_were_made_in(
    one: datetime, other: datetime, bits: int, other_bits: int
) -> None:
    first, second = sorted((one, other))
    if first < second:
        assert make_job_id(first, bits) < make_job_id(second, other_bits)


def test_neighbouring_microseconds_are_distinguished() -> None:
    made = [make_job_id(NOW + step * TICK, 2**62 - 1 - step) for step in range(3000)]
    assert made == sorted(made)
    assert len(set(made)) == 3000


@always
@given(INSTANTS, BITS, st.integers(0, 50))
def test_ids_made_together_are_different_and_keep_their_order(
    now: datetime, bits: int, count: int
) -> None:
    made = make_job_ids(now, bits, count)
    assert len(made) == count
    assert made == sorted(set(made))


@pytest.mark.parametrize("bits", [0, 2**61 - 1, 2**62 - 1, 2**63 - 1])
def test_no_draw_leaves_too_little_room_to_count(bits: int) -> None:
    made = make_job_ids(NOW, bits, 100)
    assert made == sorted(set(made))
    assert UUID(made[-1]).int - UUID(made[0]).int == 99


def test_chance_decides_between_ids_of_one_moment() -> None:
    assert make_job_id(NOW, 1) != make_job_id(NOW, 2)
    assert make_job_id(NOW, 1) == make_job_id(NOW, 1)
    assert make_job_id(NOW, 1 + 2**62) == make_job_id(NOW, 1)


def test_the_zone_of_now_makes_no_difference() -> None:
    local = NOW.astimezone(timezone(timedelta(hours=9)))
    assert make_job_id(local, 7) == make_job_id(NOW, 7)


def test_the_first_moment_of_1970_has_an_id_and_the_one_before_has_none() -> None:
    first = datetime(1970, 1, 1, tzinfo=UTC)
    assert UUID(make_job_id(first, 0)).int >> 80 == 0
    with pytest.raises(InvalidInputError, match="now must not be before 1970, got 1969"):
        make_job_id(first - TICK, 0)


def test_a_moment_without_a_zone_or_before_1970_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="now must be an aware datetime"):
        make_job_id(NOW.replace(tzinfo=None), 1)
    with pytest.raises(InvalidInputError, match="now must not be before 1970") as refusal:
        make_job_id(datetime(1969, 12, 31, tzinfo=UTC), 1)
    assert refusal.value.details["field"] == "now"


def test_a_job_has_one_successor_from_any_maker() -> None:
    parent, other = make_job_ids(NOW, 1, 2)
    derived = derive_job_id(parent, NOW)
    assert derived == derive_job_id(parent, NOW)
    assert UUID(derived).version == 7
    assert len({derived, parent, derive_job_id(other, NOW), derive_job_id(parent, NOW + TICK)}) == 4


def test_a_series_may_have_begun_before_1970() -> None:
    derived = derive_job_id(make_job_id(NOW, 1), datetime(1950, 1, 1, tzinfo=UTC))
    assert UUID(derived).int >> 80 == 0


@always
@given(st.uuids())
def test_any_uuid_is_an_id_in_lower_case(identifier: UUID) -> None:
    assert normalize_job_id(str(identifier)) == str(identifier)
    assert normalize_job_id(str(identifier).upper()) == str(identifier)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "job-1",
        "01890a5dac96774bbcceb302099a8057",
        "{01890a5d-ac96-774b-bcce-b302099a8057}",
        "01890a5d-ac96-774b-bcce-b302099a8057\n",
        "01890a5d-ac96-774b-bcce-b302099a805",
        "01890a5d-ac96-774b-bcce-b302099a805g",
        "01890a5d-ac96-774b-bcce-b302099a805-",
        "01890a5d0ac96-774b-bcce-b302099a-057",
        "01890a5d-ac96-774b-bcce-b302099a 057",
        "01890a5d-ac96-774b-bcce-b302099a_057",
        "01890a5d-ac96-774b-bcce-b302099a805\N{ARABIC-INDIC DIGIT SEVEN}",
        "01890a5d-ac96-774b-bcce-b302099a805\N{FULLWIDTH LATIN SMALL LETTER A}",
    ],
)
def test_other_texts_are_not_ids(text: str) -> None:
    assert normalize_job_id(text) is None


@given(st.lists(st.uuids().map(str), max_size=5), st.data())
def test_many_are_ids_if_each_of_them_is(ids: list[str], data: st.DataObject) -> None:
    assert are_job_ids(ids)
    spoilt = data.draw(st.sampled_from(["", ",", "x", f"{UUID(int=1)},{UUID(int=2)}", "A" * 36]))
    at = data.draw(st.integers(0, len(ids)))
    assert not are_job_ids([*ids[:at], spoilt, *ids[at:]])


def test_the_fraction_of_a_millisecond_follows_the_version() -> None:
    """RFC 9562, method 3: the fraction times 4096, rounded down."""
    for microseconds, digits in ((0, 0), (1, 4), (500, 2048), (999, 4091)):
        made = UUID(make_job_id(NOW + microseconds * TICK, 0))
        assert made.int >> 64 & 0xFFF == digits
