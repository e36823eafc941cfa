import pytest

from rota.cli.cron import CrontabForm, Findings, check_lines

EXTENDED = CrontabForm("extended")


def check(text: str, form: CrontabForm | None = None) -> Findings:
    return check_lines(text.splitlines(keepends=True), form or CrontabForm())


def problems(text: str, form: CrontabForm | None = None) -> list[tuple[int, int, int, str]]:
    found = check(text, form).problems
    return [(each.line, each.start, each.end, each.reason) for each in found]


def test_a_sound_crontab_has_no_problems() -> None:
    findings = check(
        "# nightly\n"
        "\n"
        "   \t\n"
        "  # indented comment\n"
        "SHELL=/bin/sh\n"
        'MAILTO = "ops@example.org"\n'
        "CRON_TZ=Europe/London\n"
        "0 9 * * 1-5 echo good morning\n"
        "\t30\t1 * * *\tbackup --all # with a remark\n"
    )
    assert findings == Findings(line_count=9, schedule_count=2, problems=())


def test_nothing_to_check_is_not_a_problem() -> None:
    assert check("") == Findings(line_count=0, schedule_count=0, problems=())


def test_every_bad_line_is_found_with_where_it_is_bad() -> None:
    assert problems("61 * * * * a\n0 9 * * 1 b\n  0 24 * * * c\n") == [
        (1, 0, 2, "minute field out of range (0-59)"),
        (3, 4, 6, "hour field out of range (0-23)"),
    ]


def test_too_few_fields_are_counted() -> None:
    assert problems("0 9 * *\n") == [(1, 0, 7, "must have exactly 5 fields, got 4")]


def test_a_schedule_without_a_command_is_a_problem_at_the_end_of_the_line() -> None:
    assert problems("0 9 * * 1  \n") == [(1, 11, 11, "no command after the schedule")]


def test_a_date_that_never_comes_is_a_problem() -> None:
    ((_, _, _, reason),) = problems("0 0 31 2 * party\n")
    assert reason.startswith("no valid execution times")


@pytest.mark.parametrize("zone", ["Europe/London", '"Europe/London"', "'UTC'", " Asia/Tokyo "])
def test_a_known_zone_is_fine_quoted_or_not(zone: str) -> None:
    assert problems(f"CRON_TZ={zone}\n") == []


@pytest.mark.parametrize(
    ("line", "start", "end"),
    [("CRON_TZ=Mars/Base", 8, 17), ('CRON_TZ = "Mars/Base"', 11, 20), ("CRON_TZ=", 8, 8)],
)
def test_an_unknown_zone_is_a_problem_where_it_stands(line: str, start: int, end: int) -> None:
    ((_, found_start, found_end, reason),) = problems(line)
    assert (found_start, found_end) == (start, end)
    assert reason.startswith("Unknown time zone")


def test_a_quoted_name_is_a_setting_too() -> None:
    assert check('"PATH"=/bin\n').schedule_count == 0


def test_windows_line_ends_are_not_part_of_the_line() -> None:
    form = CrontabForm(has_commands=False)
    assert problems("0 9 * * 1\r\n61 * * * *\r\n", form) == [
        (2, 0, 2, "minute field out of range (0-59)")
    ]


def test_without_commands_the_whole_line_is_the_expression() -> None:
    form = CrontabForm(has_commands=False)
    assert problems("0 9 * * 1\n0 9 * * 1 echo\n", form) == [
        (2, 0, 14, "must have exactly 5 fields, got 6")
    ]


def test_lines_that_only_the_extended_dialect_allows_are_named() -> None:
    text = "*/5 * * * * x\n@daily y\n61 * * * * z\n"
    allowed = "; the extended dialect allows it"
    assert problems(text) == [
        (1, 0, 3, f"minute field slash syntax not supported (POSIX violation){allowed}"),
        (2, 0, 6, f"macro syntax not supported (POSIX violation){allowed}"),
        (3, 0, 2, "minute field out of range (0-59)"),
    ]


def test_the_extended_dialect_reads_macros_names_and_steps() -> None:
    text = "@daily backup\n@every 90m poll it\n*/5 8-18 * jan mon-fri x\n@hourly y\n"
    findings = check(text, EXTENDED)
    assert findings == Findings(line_count=4, schedule_count=4, problems=())


def test_a_macro_without_a_command_is_a_problem() -> None:
    assert problems("@daily\n", EXTENDED) == [(1, 6, 6, "no command after the schedule")]


def test_six_fields_are_read_where_no_command_can_follow() -> None:
    assert problems("*/15 * * * * *\n", CrontabForm("extended", has_commands=False)) == []


def test_a_problem_is_given_to_programs_with_columns_from_one() -> None:
    assert check("0 24 * * * c\n").to_document() == {
        "line_count": 1,
        "schedule_count": 1,
        "problem_count": 1,
        "problems": [
            {
                "line": 1,
                "column": 3,
                "end_column": 5,
                "reason": "hour field out of range (0-23)",
                "text": "0 24 * * * c",
            }
        ],
    }
