"""The options that commands share, each with the words that explain it."""

from collections.abc import Sequence
from typing import Annotated
from zoneinfo import available_timezones

from cyclopts import Parameter
from cyclopts.validators import Number

from rota.cli.rendering.terminal import Terminal
from rota.triggers.parse import Dialect
from rota.triggers.zone import Fold, Gap

MOST_OCCURRENCES = 10_000
DEFAULT_STORE = "sqlite:///rota.db"


def _zone_names(_context: object) -> Sequence[str]:
    return sorted(available_timezones())


DialectOption = Annotated[
    Dialect,
    Parameter(
        help="posix: five fields of numbers, ranges and lists. posix-multiline: the same, also "
        "separated by line breaks. extended: steps, names, macros and seconds too."
    ),
]
ZoneOption = Annotated[
    str | None,
    Parameter(
        metavar="NAME",
        help="IANA time zone, such as Europe/London. Default: the host's.",
        completer=_zone_names,
    ),
]
CountOption = Annotated[
    int,
    Parameter(
        name=["--count", "-n"],
        metavar="NUMBER",
        validator=Number(gte=1, lte=MOST_OCCURRENCES),
        help=f"How many occurrences, 1 to {MOST_OCCURRENCES}.",
    ),
]
FromOption = Annotated[
    str | None,
    Parameter(
        name="--from",
        metavar="INSTANT",
        allow_leading_hyphen=True,
        help="List what comes strictly after this ISO 8601 instant; without an offset it is wall "
        "time in the zone. Default: now.",
    ),
]
GapOption = Annotated[
    Gap,
    Parameter(
        help="A time that does not exist because clocks go forward is left out (skip), or moves "
        "on by the length of the gap (shift)."
    ),
]
FoldOption = Annotated[
    Fold,
    Parameter(
        help="A time that happens twice because clocks go back counts both times (both), or the "
        "first time only (first)."
    ),
]
JsonOption = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        help="Print one JSON document for programs, errors too.",
    ),
]
StoreOption = Annotated[
    str,
    Parameter(
        metavar="URL",
        env_var="ROTA_STORE",
        help="Where things are remembered, such as sqlite:///rota.db.",
    ),
]
GivenTerminal = Annotated[Terminal, Parameter(parse=False)]
