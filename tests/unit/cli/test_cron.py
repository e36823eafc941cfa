import errno
import gc
import io
from pathlib import Path
from typing import NoReturn

import pytest
from tests.unit.cli.conftest import RunRota

from rota.triggers.cron import parse_cron

NIGHTLY = "30 1 * * *"
LONDON = ("--zone", "Europe/London")


def test_next_lists_local_time_and_utc(rota: RunRota) -> None:
    outcome = rota("cron", "next", "0 9 * * 1-5", *LONDON, "--from", "2027-03-26", "-n", "3")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == (
        f"{parse_cron('0 9 * * 1-5').describe()}\n"
        "Europe/London, after Fri 2027-03-26 00:00:00 +00:00\n"
        "\n"
        "#  Local                        UTC                In\n"
        "1  Fri 2027-03-26 09:00 +00:00  2027-03-26 09:00Z  9h\n"
        "2  Mon 2027-03-29 09:00 +01:00  2027-03-29 08:00Z  3d 8h\n"
        "3  Tue 2027-03-30 09:00 +01:00  2027-03-30 08:00Z  4d 8h\n"
    )


def test_next_shows_what_a_gap_skips(rota: RunRota) -> None:
    outcome = rota("cron", "next", NIGHTLY, *LONDON, "--from", "2027-03-27", "-n", "2")
    change = "clocks go forward 01:00 → 02:00"
    assert outcome.out.splitlines()[3:] == [
        "#  Local                        UTC                In      Note",
        "1  Sat 2027-03-27 01:30 +00:00  2027-03-27 01:30Z  1h 30m",
        f"-  Sun 2027-03-28 01:30         does not exist             {change}",
        "2  Mon 2027-03-29 01:30 +01:00  2027-03-29 00:30Z  2d",
    ]


def test_next_shows_what_a_gap_moves(rota: RunRota) -> None:
    outcome = rota(
        "cron", "next", NIGHTLY, *LONDON, "--from", "2027-03-28", "-n", "1", "--gap", "shift"
    )
    assert outcome.out.splitlines()[4] == (
        "1  Sun 2027-03-28 02:30 +01:00  2027-03-28 01:30Z  1h 30m"
        "  clocks go forward: moved from 01:30"
    )


def test_next_distinguishes_both_showings_at_80_columns(rota: RunRota) -> None:
    argv = ("cron", "next", NIGHTLY, *LONDON, "--from", "2027-10-31", "-n", "2")
    outcome = rota(*argv, width=80)
    assert outcome.out.splitlines()[3:] == [
        "#  Local                        UTC                In      Note",
        "1  Sun 2027-10-31 01:30 +01:00  2027-10-31 00:30Z  1h 30m  clocks go back:",
        "                                                           first 01:30",
        "2  Sun 2027-10-31 01:30 +00:00  2027-10-31 01:30Z  2h 30m  clocks go back:",
        "                                                           second 01:30",
    ]


def test_next_can_take_the_first_showing_only(rota: RunRota) -> None:
    argv = ("--from", "2027-10-31", "-n", "2", "--fold", "first", "--json")
    occurrences = rota("cron", "next", NIGHTLY, *LONDON, *argv).document["occurrences"]
    assert [each["utc"] for each in occurrences] == ["2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"]
    assert [each["note"] and each["note"]["kind"] for each in occurrences] == ["first_only", None]


def test_many_skipped_times_are_one_row(rota: RunRota) -> None:
    outcome = rota("cron", "next", "* * * * *", *LONDON, "--from", "2027-03-28T00:58", "-n", "2")
    assert outcome.out.splitlines()[4:] == [
        "1  Sun 2027-03-28 00:59 +00:00    2027-03-28 00:59Z  1m",
        "-  Sun 2027-03-28 01:00 to 01:59  60 do not exist        clocks go forward 01:00 → 02:00",
        "2  Sun 2027-03-28 02:00 +01:00    2027-03-28 01:00Z  2m",
    ]


def test_seconds_are_shown_where_an_occurrence_has_some(rota: RunRota) -> None:
    outcome = rota(
        "cron", "next", "*/20 * * * * *", "--dialect", "extended", "--zone", "UTC", "-n", "2"
    )
    assert outcome.out.splitlines()[3:] == [
        "#  Local                           UTC                   In",
        "1  Fri 2027-03-26 12:00:40 +00:00  2027-03-26 12:00:40Z  10s",
        "2  Fri 2027-03-26 12:01:00 +00:00  2027-03-26 12:01:00Z  30s",
    ]


def test_next_begins_now_in_the_hosts_zone(rota: RunRota) -> None:
    document = rota("cron", "next", "* * * * *", "--json").document
    assert len(document["occurrences"]) == 10
    del document["occurrences"][1:]
    assert document == {
        "expression": "* * * * *",
        "dialect": "posix",
        "description": parse_cron("* * * * *").describe(),
        "zone": "Europe/London",
        "zone_source": "host",
        "gap": "skip",
        "fold": "both",
        "from": "2027-03-26T12:00:30Z",
        "occurrences": [
            {
                "number": 1,
                "local": "2027-03-26T12:01:00+00:00",
                "weekday": "Friday",
                "utc": "2027-03-26T12:01:00Z",
                "in_seconds": 30,
                "note": None,
            }
        ],
        "skipped": [],
    }


def test_next_gives_programs_what_was_skipped_and_moved(rota: RunRota) -> None:
    argv = ("cron", "next", NIGHTLY, *LONDON, "--from", "2027-03-28", "--json")
    assert rota(*argv).document["skipped"] == [
        {
            "first": "2027-03-28T01:30:00",
            "last": "2027-03-28T01:30:00",
            "count": 1,
            "transition_at": "2027-03-28T01:00:00Z",
            "text": "2027-03-28 01:30 does not exist: clocks go forward 01:00 → 02:00",
        }
    ]
    assert rota(*argv, "--gap", "shift").document["occurrences"][0]["note"] == {
        "kind": "moved",
        "asked_for": "2027-03-28T01:30:00",
        "text": "clocks go forward: moved from 01:30",
    }


def test_a_schedule_in_real_time_has_neither_fields_nor_skipped_times(rota: RunRota) -> None:
    argv = ("cron", "explain", "@every 30m", "--dialect", "extended", *LONDON)
    document = rota(*argv, "--from", "2027-03-28T00:15", "--json").document
    assert document["fields"] is None
    assert document["day_rule"] is None
    assert document["skipped"] == []
    assert "Field" not in rota(*argv).out


def test_an_unnamed_host_zone_is_remarked_on(
    rota: RunRota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: None)
    outcome = rota("cron", "next", "0 9 * * *")
    assert outcome.err == (
        "note: the host's time zone has no known name, so this is UTC; name one with --zone\n"
    )
    assert "UTC, after Fri 2027-03-26 12:00:30 +00:00" in outcome.out
    quiet = rota("cron", "next", "0 9 * * *", "--json")
    assert (quiet.err, quiet.document["zone_source"]) == ("", "fallback")


def test_explain_shows_every_value_of_every_field(rota: RunRota) -> None:
    outcome = rota("cron", "explain", "0,30 9 13 1-3 5", *LONDON)
    assert outcome.out == (
        f"{parse_cron('0,30 9 13 1-3 5').describe()}\n"
        "Dialect: posix\n"
        "\n"
        "Field    Values\n"
        "minute   0, 30\n"
        "hour     9\n"
        "day      13\n"
        "month    January, February, March\n"
        "weekday  Friday\n"
        "\n"
        "A date counts when its day or its weekday matches.\n"
        "\n"
        "Next three\n"
        "Europe/London, after Fri 2027-03-26 12:00:30 +00:00\n"
        "\n"
        "#  Local                        UTC                In\n"
        "1  Fri 2028-01-07 09:00 +00:00  2028-01-07 09:00Z  286d\n"
        "2  Fri 2028-01-07 09:30 +00:00  2028-01-07 09:30Z  286d\n"
        "3  Thu 2028-01-13 09:00 +00:00  2028-01-13 09:00Z  292d\n"
    )


def test_explain_says_every_where_a_field_is_free(rota: RunRota) -> None:
    lines = rota("cron", "explain", "* * * * 0").out.splitlines()
    assert lines[4:9] == [
        "minute   every minute",
        "hour     every hour",
        "day      every day",
        "month    every month",
        "weekday  Sunday",
    ]


def test_explain_shows_seconds_where_there_are_some(rota: RunRota) -> None:
    out = rota("cron", "explain", "*/30 * * * * *", "--dialect", "extended").out
    assert "second   0, 30\n" in out


def test_explain_gives_programs_the_fields_as_numbers(rota: RunRota) -> None:
    document = rota("cron", "explain", "0 9 * * 0,6", "--json").document
    assert document["fields"]["weekday"] == [0, 6]
    assert document["fields"]["hour"] == [9]
    assert document["fields"]["day"] == list(range(1, 32))
    assert document["day_rule"] == "both"
    assert len(document["occurrences"]) == 3


def test_check_prints_problems_as_a_compiler_does(rota: RunRota, tmp_path: Path) -> None:
    crontab = tmp_path / "crontab"
    crontab.write_text("# comment\n0 9 * * 1 fine\n0 24 * * *\tlate\x1b[2J\n", encoding="utf-8")
    outcome = rota("cron", "check", str(crontab))
    assert outcome.status == 1
    assert outcome.out == (
        f"{crontab}:3:3: hour field out of range (0-23)\n"
        "  0 24 * * *\\x09late\\x1b[2J\n"
        "    ^^\n"
        f"{crontab}: 3 lines, 2 schedules, 1 problem\n"
    )


def test_check_of_a_sound_file_ends_well(rota: RunRota, tmp_path: Path) -> None:
    crontab = tmp_path / "crontab"
    crontab.write_text("*/5 * * * * x\n", encoding="utf-8")
    outcome = rota("cron", "check", str(crontab), "--dialect", "extended")
    assert (outcome.status, outcome.out) == (0, f"{crontab}: 1 line, 1 schedule, 0 problems\n")


def test_check_gives_programs_the_same(rota: RunRota, tmp_path: Path) -> None:
    crontab = tmp_path / "expressions"
    crontab.write_bytes(b"0 9 * * 1\n\xff * * * *\n")
    outcome = rota("cron", "check", str(crontab), "--no-command", "--json")
    assert outcome.status == 1
    document = outcome.document
    assert document["file"] == str(crontab)
    assert (document["line_count"], document["problem_count"]) == (2, 1)
    assert document["problems"][0]["text"] == "\udcff * * * *"


def test_check_of_an_unreadable_file_is_bad_input(rota: RunRota, tmp_path: Path) -> None:
    missing = rota("cron", "check", str(tmp_path / "none"))
    assert missing.status == 2
    assert missing.err == f'error: Cannot read "{tmp_path / "none"}": No such file or directory\n'
    folder = rota("cron", "check", str(tmp_path), "--json")
    assert (folder.status, folder.error["details"]["reason"]) == (2, "Is a directory")


def test_a_long_file_on_a_terminal_shows_progress_and_then_nothing_of_it(
    rota: RunRota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.cli.cron.WORTH_A_PROGRESS_BAR", 1)
    monkeypatch.chdir(tmp_path)
    Path("tab").write_text("0 9 * * 1 x\n" * 3, encoding="utf-8")
    outcome = rota("cron", "check", "tab", width=80)
    assert outcome.out == "tab: 3 lines, 3 schedules, 0 problems\n"
    assert "Checking" in outcome.err
    assert rota("cron", "check", "tab").err == ""


def test_on_a_terminal_words_are_wrapped_and_source_lines_are_not(
    rota: RunRota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "x" * 60
    Path("tab").write_text(f"0 9 31 2 * {command}\n", encoding="utf-8")
    lines = rota("cron", "check", "tab", width=40).out.splitlines()
    assert [line.rstrip() for line in lines] == [
        "tab:1:1: no valid execution times: none",
        "of the months has any of the days",
        f"  0 9 31 2 * {command}",
        "  ^^^^^^^^^^",
        "tab: 1 line, 1 schedule, 1 problem",
    ]


class Breaking(io.RawIOBase):
    """A disk that fails in the middle of a file."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = [b"0 9 * * 1 x\n"]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # typeshed's Buffer is wider
        if not self._lines:
            raise OSError(errno.EIO, "Input/output error")
        line = self._lines.pop()
        buffer[: len(line)] = line
        return len(line)


def standard_input(raw: io.RawIOBase) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedReader(raw))


def test_check_reads_standard_input_and_leaves_it_open(
    rota: RunRota, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"0 9 * * 1 x\r\n\xff * * * * y\n"))
    monkeypatch.setattr("sys.stdin", stdin)
    outcome = rota("cron", "check", "-")
    assert outcome.status == 1
    assert "  \\udcff * * * * y\n  ^^^^^^\n-: 2 lines, 2 schedules, 1 problem\n" in outcome.out
    assert not stdin.buffer.closed


def test_a_file_that_fails_halfway_is_bad_input(
    rota: RunRota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", standard_input(Breaking()))
    outcome = rota("cron", "check", "-")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == 'error: Cannot read "-": Input/output error\n'


def test_an_interruption_leaves_standard_input_open(
    rota: RunRota, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"0 9 * * 1 x\n"))
    monkeypatch.setattr("sys.stdin", stdin)

    def interrupt(*_arguments: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("rota.cli.cron.parse_cron", interrupt)
    assert rota("cron", "check", "-").status == 130
    gc.collect()
    assert not stdin.buffer.closed
