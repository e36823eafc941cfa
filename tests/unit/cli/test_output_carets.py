import pytest

from rota.cli.output import LONGEST_LINE, underline


@pytest.mark.parametrize(
    ("text", "position", "shown"),
    [
        ("61 * * * *", (0, 2), "  61 * * * *\n  ^^"),
        ("0 25 * * *", (2, 4), "  0 25 * * *\n    ^^"),
        ("0 9 * *", (7, 7), "  0 9 * *\n         ^"),
        ("", (0, 0), "  \n  ^"),
        ("0\t9 x", (4, 5), "  0\\x099 x\n         ^"),
        ("漢 x", (2, 3), "  漢 x\n     ^"),
        ("a \x1b b", (2, 3), "  a \\x1b b\n    ^^^^"),
    ],
)
def test_carets_stand_under_the_bad_part(text: str, position: tuple[int, int], shown: str) -> None:
    assert underline(text, position).plain == shown


@pytest.mark.parametrize("start", [0, 10, 500, 990])
def test_of_a_long_text_the_part_around_the_span_is_shown(start: int) -> None:
    text = "a" * start + "BAD" + "z" * 1000
    line, carets = underline(text, (start, start + 3)).plain.split("\n")
    assert len(line) <= LONGEST_LINE + len("  ……")
    assert line[carets.index("^") : carets.rindex("^") + 1] == "BAD"
    assert line.endswith("…")
    assert ("…" in line[:3]) == (start > LONGEST_LINE // 2)


def test_a_span_longer_than_the_window_is_cut() -> None:
    line, carets = underline("x" * 5000, (0, 5000)).plain.split("\n")
    assert line == "  " + "x" * LONGEST_LINE + "…"
    assert carets == "  " + "^" * LONGEST_LINE
