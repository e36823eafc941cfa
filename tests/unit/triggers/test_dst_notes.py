from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from rota.triggers.dst_notes import AskedFor, DstNotes, Note, Skipped, annotate, describe_change
from rota.triggers.zone import Fold, Gap, Transition, instants_of, transitions_between

LONDON = ZoneInfo("Europe/London")
FORWARD = datetime(2027, 3, 28, 1, tzinfo=UTC)
BACK = datetime(2027, 10, 31, 1, tzinfo=UTC)
APIA = ZoneInfo("Pacific/Apia")
DAY_LOST = datetime(2011, 12, 30, 10, tzinfo=UTC)


def daily(*times: time) -> AskedFor:
    """A schedule that asks for these times every day."""

    def asked_for(start: datetime, end: datetime) -> Iterator[datetime]:
        day = start.date()
        while day <= end.date():
            for at in times:
                if start <= datetime.combine(day, at) < end:
                    yield datetime.combine(day, at)
            day += timedelta(days=1)

    return asked_for


def occurrences_of(
    asked_for: AskedFor, around: datetime, zone: tzinfo, *, gap: Gap, fold: Fold
) -> list[datetime]:
    """What the schedule does in the two days around an instant, computed from wall times."""
    wall = around.replace(tzinfo=None)
    asked = asked_for(wall - timedelta(days=2), wall + timedelta(days=2))
    found = {instant for each in asked for instant in instants_of(each, zone, gap=gap, fold=fold)}
    day = timedelta(days=1)
    return sorted(instant for instant in found if around - day < instant <= around + day)


def notes_of(
    asked_for: AskedFor,
    around: datetime,
    zone: tzinfo = LONDON,
    *,
    gap: Gap = "skip",
    fold: Fold = "both",
) -> DstNotes:
    occurrences = occurrences_of(asked_for, around, zone, gap=gap, fold=fold)
    after = around - timedelta(days=1)
    return annotate(occurrences, zone, asked_for, after=after, gap=gap, fold=fold)


def texts(notes: DstNotes) -> dict[str, str]:
    return {f"{at:%m-%d %H:%M}": note.text for at, note in notes.notes.items()}


def test_a_time_in_a_gap_is_reported_as_skipped() -> None:
    notes = notes_of(daily(time(1, 30), time(9)), FORWARD)
    assert notes.notes == {}
    assert [skipped.text for skipped in notes.skipped] == [
        "2027-03-28 01:30 does not exist: clocks go forward 01:00 → 02:00"
    ]


def test_several_times_in_one_gap_are_reported_together() -> None:
    notes = notes_of(daily(time(1, 0), time(1, 30), time(1, 45), time(9)), FORWARD)
    assert [skipped.text for skipped in notes.skipped] == [
        "2027-03-28 01:00 to 01:45 (3 times) do not exist: clocks go forward 01:00 → 02:00"
    ]
    assert [wall.minute for wall in notes.skipped[0].walls] == [0, 30, 45]


def test_a_schedule_that_asks_for_nothing_in_the_gap_has_no_note() -> None:
    assert notes_of(daily(time(0, 59), time(2)), FORWARD) == DstNotes({}, ())


def test_a_gap_that_ends_exactly_at_the_last_occurrence_is_reported() -> None:
    asked_for = daily(time(1, 30), time(2))
    notes = annotate(
        [FORWARD], LONDON, asked_for, after=FORWARD - timedelta(hours=1), gap="skip", fold="both"
    )
    assert [skipped.subject for skipped in notes.skipped] == ["2027-03-28 01:30"]


def test_a_gap_after_the_last_occurrence_is_not_reported() -> None:
    occurrence = FORWARD - timedelta(hours=2)
    after = FORWARD - timedelta(days=1)
    notes = annotate([occurrence], LONDON, daily(time(1, 30)), after=after, gap="skip", fold="both")
    assert notes == DstNotes({}, ())


def test_a_gap_at_the_instant_asked_from_is_not_reported() -> None:
    occurrence = FORWARD + timedelta(hours=2)
    notes = annotate(
        [occurrence], LONDON, daily(time(1, 30)), after=FORWARD, gap="skip", fold="both"
    )
    assert notes == DstNotes({}, ())


def test_a_shifted_time_says_what_it_was_asked_for() -> None:
    notes = notes_of(daily(time(1, 30), time(9)), FORWARD, gap="shift")
    assert texts(notes) == {"03-28 01:30": "clocks go forward: moved from 01:30"}
    assert notes.skipped == ()


def test_a_shifted_time_that_meets_another_stands_for_both() -> None:
    notes = notes_of(daily(time(1, 15), time(1, 30), time(2, 30)), FORWARD, gap="shift")
    assert texts(notes) == {
        "03-28 01:15": "clocks go forward: moved from 01:15",
        "03-28 01:30": "clocks go forward: also for 01:30",
    }


def test_a_shifted_time_that_is_not_listed_is_not_noted() -> None:
    asked_for = daily(time(1, 15), time(1, 30))
    listed = [FORWARD + timedelta(minutes=30)]
    notes = annotate(
        listed, LONDON, asked_for, after=FORWARD + timedelta(minutes=20), gap="shift", fold="both"
    )
    assert [note.wall.minute for note in notes.notes.values()] == [30]


def test_a_gap_that_touches_no_listed_occurrence_moves_nothing() -> None:
    notes = notes_of(daily(time(9)), FORWARD, gap="shift")
    assert notes == DstNotes({}, ())


def test_both_showings_of_a_repeated_time_are_distinguished() -> None:
    notes = notes_of(daily(time(1, 30), time(9)), BACK)
    assert texts(notes) == {
        "10-31 00:30": "clocks go back: first 01:30",
        "10-31 01:30": "clocks go back: second 01:30",
    }


def test_a_rule_that_takes_the_first_showing_says_so() -> None:
    notes = notes_of(daily(time(1, 30)), BACK, fold="first")
    assert texts(notes) == {"10-31 00:30": "clocks go back: first 01:30 only"}


def test_the_showing_is_known_even_when_the_list_begins_between_the_two() -> None:
    second = BACK + timedelta(minutes=30)
    after = BACK + timedelta(minutes=10)
    notes = annotate([second], LONDON, daily(time(1, 30)), after=after, gap="skip", fold="both")
    assert notes.notes[second].kind == "second"


def test_the_edges_of_a_fold_are_exact() -> None:
    notes = notes_of(daily(time(0, 59), time(1, 0), time(1, 59), time(2, 0)), BACK)
    assert texts(notes) == {
        "10-31 00:00": "clocks go back: first 01:00",
        "10-31 00:59": "clocks go back: first 01:59",
        "10-31 01:00": "clocks go back: second 01:00",
        "10-31 01:59": "clocks go back: second 01:59",
    }


def test_a_schedule_in_real_time_is_neither_moved_nor_skipped() -> None:
    hours = [FORWARD + timedelta(hours=hour) for hour in range(-3, 4)]
    for gap in ("skip", "shift"):
        notes = annotate(
            hours, LONDON, None, after=hours[0] - timedelta(hours=1), gap=gap, fold="first"
        )
        assert notes == DstNotes({}, ())


def test_a_schedule_in_real_time_meets_both_showings_under_any_rule() -> None:
    hours = [BACK + timedelta(hours=hour) for hour in range(-2, 2)]
    notes = annotate(
        hours, LONDON, None, after=hours[0] - timedelta(hours=1), gap="skip", fold="first"
    )
    assert [notes.notes[hour].kind for hour in hours[1:3]] == ["first", "second"]


def test_a_whole_day_that_is_skipped_is_dated_at_both_ends() -> None:
    notes = notes_of(daily(time(9), time(18)), DAY_LOST, APIA)
    (skipped,) = notes.skipped
    assert skipped.text == (
        "2011-12-30 09:00 to 18:00 (2 times) do not exist: "
        "clocks go forward 2011-12-30 00:00 → 2011-12-31 00:00"
    )


def test_a_time_moved_to_another_day_is_dated() -> None:
    notes = notes_of(daily(time(9)), DAY_LOST, APIA, gap="shift")
    assert texts(notes) == {"12-30 19:00": "clocks go forward: also for 2011-12-30 09:00"}


def test_seconds_are_shown_where_there_are_some() -> None:
    notes = notes_of(daily(time(1, 30, 15), time(9)), FORWARD)
    assert notes.skipped[0].subject == "2027-03-28 01:30:15"


def test_skipped_times_on_two_dates_are_both_dated() -> None:
    at = datetime(2000, 1, 1, 23, 30, tzinfo=UTC)
    transition = Transition(at, timedelta(0), timedelta(hours=1))
    skipped = Skipped((datetime(2000, 1, 1, 23, 45), datetime(2000, 1, 2, 0, 15)), transition)  # noqa: DTZ001 - wall times are naive
    assert skipped.text == (
        "2000-01-01 23:45 to 2000-01-02 00:15 (2 times) do not exist: "
        "clocks go forward 2000-01-01 23:30 → 2000-01-02 00:30"
    )


@pytest.mark.parametrize(
    ("near", "text"),
    [(FORWARD, "clocks go forward 01:00 → 02:00"), (BACK, "clocks go back 02:00 → 01:00")],
)
def test_a_change_is_described_as_the_wall_shows_it(near: datetime, text: str) -> None:
    day = timedelta(days=1)
    (transition,) = transitions_between(near - day, near + day, LONDON)
    assert describe_change(transition) == text


def test_no_occurrences_have_no_notes() -> None:
    notes = annotate([], LONDON, daily(time(9)), after=FORWARD, gap="skip", fold="both")
    assert notes == DstNotes({}, ())


@pytest.mark.parametrize(
    "edge",
    [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC) + timedelta(seconds=1)],
)
def test_the_ends_of_the_calendar_are_handled(edge: datetime) -> None:
    after = edge - timedelta(seconds=1)
    notes = annotate([edge], LONDON, daily(time(9)), after=after, gap="skip", fold="both")
    assert notes == DstNotes({}, ())


@pytest.mark.parametrize(
    "zone_name", ["Australia/Lord_Howe", "Africa/Casablanca", "America/Havana"]
)
@pytest.mark.parametrize("fold", ["first", "both"])
def test_every_asked_time_of_a_year_is_run_or_skipped(zone_name: str, fold: Fold) -> None:
    """Half-hour shifts, negative daylight saving and midnight gaps lose no asked time."""
    zone = ZoneInfo(zone_name)
    asked_for = daily(time(0, 15), time(1, 45), time(2, 10), time(2, 40), time(3, 5))
    start, end = datetime(2026, 1, 1), datetime(2027, 1, 1)  # noqa: DTZ001 - wall times are naive
    asked = list(asked_for(start, end))
    occurrences: Sequence[datetime] = [
        instant for wall in asked for instant in instants_of(wall, zone, gap="skip", fold=fold)
    ]
    after = occurrences[0] - timedelta(seconds=1)
    notes = annotate(sorted(occurrences), zone, asked_for, after=after, gap="skip", fold=fold)
    skipped = {wall for each in notes.skipped for wall in each.walls}
    assert skipped
    assert skipped == {w for w in asked if not instants_of(w, zone, gap="skip", fold=fold)}
    repeated = {w for w in asked if len(instants_of(w, zone, gap="skip", fold="both")) == 2}
    assert repeated
    assert {note.wall for note in notes.notes.values()} == repeated


def test_a_note_names_its_kind_for_programs() -> None:
    at = BACK - timedelta(minutes=30)
    note = notes_of(daily(time(1, 30)), BACK).notes[at]
    assert note == Note("first", datetime(2027, 10, 31, 1, 30), note.transition)  # noqa: DTZ001 - wall times are naive
    assert note.transition.at == BACK
