from tests.unit.cli.conftest import RunRota

NIGHTLY = "FREQ=DAILY;BYHOUR=1;BYMINUTE=30;BYSECOND=0"
LONDON = ("--zone", "Europe/London")
FORTNIGHTLY = ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=18", "--start", "2027-03-01T18:00")


def test_next_lists_local_time_and_utc(rota: RunRota) -> None:
    outcome = rota("rrule", "next", *FORTNIGHTLY, *LONDON, "--count", "3")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == (
        "Every 2 weeks on Monday at 18:00\n"
        "Europe/London, after Fri 2027-03-26 12:00:30 +00:00\n"
        "\n"
        "#  Local                        UTC                In\n"
        "1  Mon 2027-03-29 18:00 +01:00  2027-03-29 17:00Z  3d 4h\n"
        "2  Mon 2027-04-12 18:00 +01:00  2027-04-12 17:00Z  17d\n"
        "3  Mon 2027-04-26 18:00 +01:00  2027-04-26 17:00Z  31d\n"
    )


def test_by_default_a_time_in_a_gap_moves(rota: RunRota) -> None:
    outcome = rota("rrule", "next", NIGHTLY, *LONDON, "--from", "2027-03-28", "-n", "1")
    assert outcome.out.splitlines()[4] == (
        "1  Sun 2027-03-28 02:30 +01:00  2027-03-28 01:30Z  1h 30m"
        "  clocks go forward: moved from 01:30"
    )


def test_a_time_in_a_gap_can_be_skipped(rota: RunRota) -> None:
    argv = ("--from", "2027-03-28", "-n", "1", "--gap", "skip")
    assert rota("rrule", "next", NIGHTLY, *LONDON, *argv).out.splitlines()[4:] == [
        "-  Sun 2027-03-28 01:30         does not exist         clocks go forward 01:00 → 02:00",
        "1  Mon 2027-03-29 01:30 +01:00  2027-03-29 00:30Z  1d",
    ]


def test_by_default_the_first_showing_counts(rota: RunRota) -> None:
    argv = ("rrule", "next", NIGHTLY, *LONDON, "--from", "2027-10-31", "-n", "2", "--json")
    kinds = [each["note"] and each["note"]["kind"] for each in rota(*argv).document["occurrences"]]
    assert kinds == ["first_only", None]
    both = rota(*argv, "--fold", "both").document["occurrences"]
    assert [each["note"]["kind"] for each in both] == ["first", "second"]


def test_a_rule_that_ends_says_so(rota: RunRota) -> None:
    outcome = rota("rrule", "next", "FREQ=DAILY;COUNT=2", "--start", "2027-04-01T09:00")
    assert outcome.out.endswith("09:00 +01:00  2027-04-02 08:00Z  6d 19h\n\nThe rule ends here.\n")


def test_a_rule_that_has_ended_is_not_found(rota: RunRota) -> None:
    outcome = rota("rrule", "next", "FREQ=DAILY;COUNT=2", "--start", "2026-04-01T09:00")
    assert outcome.status == 3
    assert outcome.err == "error: The rule has no occurrence after 2027-03-26T12:00:30Z\n"


def test_without_a_start_the_rule_starts_this_minute(rota: RunRota) -> None:
    document = rota("rrule", "next", "FREQ=DAILY", "-n", "1", "--json").document
    assert document["start"] == "2027-03-26T12:00:00Z"
    assert document["occurrences"][0]["local"] == "2027-03-27T12:00:00+00:00"


def test_a_start_in_the_text_is_taken(rota: RunRota) -> None:
    text = "DTSTART:20270401T090000\nRRULE:FREQ=DAILY\nEXDATE:20270402T090000"
    document = rota("rrule", "next", text, "-n", "2", "--json").document
    assert document["start"] == "2027-04-01T08:00:00Z"
    assert [each["utc"] for each in document["occurrences"]] == [
        "2027-04-01T08:00:00Z",
        "2027-04-03T08:00:00Z",
    ]


def test_explain_shows_every_part(rota: RunRota) -> None:
    outcome = rota("rrule", "explain", *FORTNIGHTLY, *LONDON)
    assert outcome.out == (
        "Every 2 weeks on Monday at 18:00\n"
        "\n"
        "Part      Value\n"
        "FREQ      WEEKLY\n"
        "INTERVAL  2\n"
        "BYDAY     MO\n"
        "BYHOUR    18\n"
        "\n"
        "Next three\n"
        "Europe/London, after Fri 2027-03-26 12:00:30 +00:00\n"
        "\n"
        "#  Local                        UTC                In\n"
        "1  Mon 2027-03-29 18:00 +01:00  2027-03-29 17:00Z  3d 4h\n"
        "2  Mon 2027-04-12 18:00 +01:00  2027-04-12 17:00Z  17d\n"
        "3  Mon 2027-04-26 18:00 +01:00  2027-04-26 17:00Z  31d\n"
    )


def test_explain_shows_the_lines_beside_the_rule(rota: RunRota) -> None:
    text = "RRULE:FREQ=DAILY\nEXDATE:20270402T090000"
    document = rota("rrule", "explain", text, "--json").document
    assert document["parts"] == [
        {"name": "FREQ", "value": "DAILY"},
        {"name": "EXDATE", "value": "20270402T090000"},
    ]
    assert document["rule"] == text


def test_a_bad_part_is_underlined(rota: RunRota) -> None:
    outcome = rota("rrule", "next", "FREQ=WEEKLY;BYDAY=XX")
    assert outcome.status == 2
    first, rule, carets = outcome.err.splitlines()
    assert first.startswith("error: invalid recurrence rule: BYDAY ")
    assert rule == "  FREQ=WEEKLY;BYDAY=XX"
    assert rule[carets.index("^") : carets.rindex("^") + 1] == "XX"


def test_a_start_that_does_not_exist_is_refused(rota: RunRota) -> None:
    outcome = rota("rrule", "next", "FREQ=DAILY", *LONDON, "--start", "2027-03-28T01:30")
    assert outcome.status == 2
    assert outcome.err.startswith('error: --start "2027-03-28T01:30" does not exist')
