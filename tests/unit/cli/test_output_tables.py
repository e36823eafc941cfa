import io

from rich.console import Console

from rota.cli.output import print_table

ROWS = [(("1", "first", "a note that goes on and on"), ""), (("10", "[bold]", ""), "dim")]


LETTERS = [
    (("0001-aaaa-bbbb", "38s ago", "A rather long name", "It cannot be resolved, not at all"), ""),
    (("0002-aaaa-bbbb", "1m ago", "Short", ""), "red"),
]


def printed_letters(width: int) -> list[str]:
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=True, color_system=None, legacy_windows=False
    )
    names = ("Id", "Ended", "Name", "Error")
    print_table(console, [(dict(zip(names, cells, strict=True)), it) for cells, it in LETTERS])
    return file.getvalue().splitlines()


def test_columns_that_have_no_room_stand_below_the_others() -> None:
    assert printed_letters(46) == [
        "Id              Ended    Name",
        "    Error",
        "0001-aaaa-bbbb  38s ago  A rather long name",
        "    It cannot be resolved, not at all",
        "0002-aaaa-bbbb  1m ago   Short",
    ]


def test_lines_below_a_row_are_in_columns_and_wrapped() -> None:
    assert printed_letters(42) == [
        "Id              Ended",
        "    Name                Error",
        "0001-aaaa-bbbb  38s ago",
        "    A rather long name  It cannot be",
        "    resolved, not at all",
        "0002-aaaa-bbbb  1m ago",
        "    Short",
    ]


def test_with_room_enough_every_row_is_a_line() -> None:
    assert printed_letters(80) == [
        "Id              Ended    Name                Error",
        "0001-aaaa-bbbb  38s ago  A rather long name  It cannot be resolved, not at all",
        "0002-aaaa-bbbb  1m ago   Short",
    ]


def printed(width: int, *, is_terminal: bool) -> str:
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=is_terminal, color_system=None, legacy_windows=False
    )
    names = ("#", "Name", "Note")
    print_table(console, [(dict(zip(names, cells, strict=True)), it) for cells, it in ROWS])
    return file.getvalue()


def test_a_row_is_one_line_without_a_terminal() -> None:
    assert printed(20, is_terminal=False) == (
        "#   Name    Note\n1   first   a note that goes on and on\n10  [bold]\n"
    )


def test_on_a_terminal_only_the_last_column_is_wrapped() -> None:
    assert printed(28, is_terminal=True) == (
        "#   Name    Note\n1   first   a note that goes\n            on and on\n10  [bold]\n"
    )


def test_a_terminal_too_narrow_to_read_is_left_to_wrap_by_itself() -> None:
    assert printed(5, is_terminal=True) == (
        "#   Name    Note\n1   first   a note that goes\n            on and on\n10  [bold]\n"
    )


def test_no_line_ends_in_spaces() -> None:
    lines = printed(40, is_terminal=True).splitlines()
    assert lines == [line.rstrip() for line in lines]
