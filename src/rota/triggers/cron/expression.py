"""The frame that both cron dialects share: text, blanks, the number of fields, what is refused."""

import re
from collections.abc import Callable, Sequence
from reprlib import repr as short_repr

from rota.errors import FieldParseError, InvalidCronExpressionError
from rota.triggers.cron.fields import CronFields, FieldRange

LONGEST_EXPRESSION = 4096
"""Longer text is refused unread; every meaning there is can be written in a tenth of it."""

NEVER_HAPPENS = "no valid execution times: none of the months has any of the days"
"""Why dates that no year has are refused."""

ReadField = Callable[[str, FieldRange], int]
"""Turns the text of a field into its set, or raises FieldParseError."""


def check_text(expression: object) -> str:
    """The expression itself, if it is text of a reasonable length."""
    if not isinstance(expression, str):
        reason = f"must be a string, got {type(expression).__name__}"
        raise InvalidCronExpressionError(short_repr(expression), "expression", reason)
    if len(expression) > LONGEST_EXPRESSION:
        reason = f"must have at most {LONGEST_EXPRESSION} characters, got {len(expression)}"
        raise InvalidCronExpressionError(f"{expression[:40]}…", "expression", reason)
    return expression


def read_fields(
    expression: str, texts: Sequence[str], ranges: Sequence[FieldRange], read: ReadField
) -> list[int]:
    """The sets of all fields; the leftmost bad one is refused, with where it stands."""
    sets: list[int] = []
    for text, field in zip(texts, ranges, strict=True):
        bits = field.all_bits if text == "*" else field.singles.get(text)
        if bits is None:
            try:
                bits = read(text, field)
            except FieldParseError as error:
                span = span_of_field(expression, texts, len(sets))
                raise InvalidCronExpressionError(
                    expression, field.name, error.reason, position=span
                ) from error
        sets.append(bits)
    return sets


def check_happens(expression: str, fields: CronFields) -> None:
    """Refuse dates that no year has, such as 31 February, by looking at the sets alone."""
    if not fields.ever_happens():
        raise InvalidCronExpressionError(expression, "expression", NEVER_HAPPENS)


def span_of_field(expression: str, texts: Sequence[str], index: int) -> tuple[int, int]:
    """Where in ``expression`` the field of that index stands, as a half-open span."""
    start = 0
    for text in texts[:index]:
        start = expression.index(text, start) + len(text)
    start = expression.index(texts[index], start)
    return start, start + len(texts[index])


def compile_splitter(blanks: str) -> Callable[[str], list[str]]:
    """A function that cuts text at these characters, and at no other blank of Unicode."""
    return re.compile(f"[^{re.escape(blanks)}]+").findall
