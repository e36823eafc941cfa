"""When something recurs, as the options of a command say it."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from rota.cli.reading.instants import choose_zone, read_instant
from rota.cli.reading.options import ZoneOption
from rota.cli.rendering.occurrences import format_instant
from rota.errors import InvalidInputError


@Parameter(name="*", group="When")
@dataclass(frozen=True)
class Rule:
    """The options that say when; exactly one of the first three."""

    cron: Annotated[
        str | None, Parameter(metavar="EXPRESSION", help="Extended cron: 0 9 * * mon-fri.")
    ] = None
    rrule: Annotated[
        str | None, Parameter(metavar="RULE", help="RFC 5545: FREQ=WEEKLY;BYDAY=MO.")
    ] = None
    every: Annotated[
        str | None, Parameter(metavar="DURATION", help="Real time in between: 15m or 1h30m.")
    ] = None
    zone: ZoneOption = None
    start: Annotated[
        str | None,
        Parameter(
            metavar="INSTANT",
            help="Not before this; a rule counts from it. Without an offset, wall time.",
        ),
    ] = None
    until: Annotated[str | None, Parameter(metavar="INSTANT", help="Not after this.")] = None
    times: Annotated[int | None, Parameter(metavar="NUMBER", help="So often, then no more.")] = None
    gap: Annotated[
        Literal["skip", "shift"] | None,
        Parameter(help="What becomes of a time that does not exist as clocks go forward."),
    ] = None
    fold: Annotated[
        Literal["first", "both"] | None,
        Parameter(help="Which of a time counts that comes twice as clocks go back."),
    ] = None
    overlap: Annotated[
        Literal["skip", "queue", "allow"],
        Parameter(help="What becomes of an occurrence while the one before it still runs."),
    ] = "skip"


def read_rule(rule: Rule) -> dict[str, Any]:
    """The rule as the service takes it; what is wrong with it, the service says."""
    given = [it for it in (rule.cron, rule.rrule, rule.every) if it is not None]
    if len(given) != 1:
        message = "exactly one of --cron, --rrule and --every says when"
        raise InvalidInputError(message, {"field": "--cron"})
    zone = choose_zone(rule.zone)
    fields = {
        "cron": rule.cron,
        "rrule": rule.rrule,
        "interval": rule.every,
        "zone": zone.name,
        "start": _read(rule.start, rule, "--start"),
        "until": _read(rule.until, rule, "--until"),
        "count": rule.times,
        "gap": rule.gap,
        "fold": rule.fold,
        "overlap": rule.overlap,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _read(text: str | None, rule: Rule, option: str) -> str | None:
    if text is None:
        return None
    return format_instant(read_instant(text, choose_zone(rule.zone).zone, option))
