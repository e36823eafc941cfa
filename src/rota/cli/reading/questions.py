"""From when, in which zone and by which rules occurrences are asked for."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.cli.reading.instants import ChosenZone, choose_zone, read_instant
from rota.cli.rendering.occurrences import format_instant
from rota.cli.rendering.terminal import Terminal
from rota.triggers.zone import Fold, Gap


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a schedule: what comes strictly after an instant, in a zone, by rules."""

    chosen: ChosenZone
    after: datetime
    gap: Gap
    fold: Fold

    def to_document(self) -> dict[str, Any]:
        return {
            "zone": self.chosen.name,
            "zone_source": self.chosen.source,
            "gap": self.gap,
            "fold": self.fold,
            "from": format_instant(self.after),
        }


def read_question(
    terminal: Terminal, zone: str | None, start: str | None, gap: Gap, fold: Fold
) -> Question:
    """The question that the options ask; where they say nothing, the host's zone and now."""
    chosen = choose_zone(zone)
    after = terminal.clock.now() if start is None else read_instant(start, chosen.zone, "--from")
    return Question(chosen, after, gap, fold)


def remark_on_zone(terminal: Terminal, question: Question) -> None:
    """Say so when the zone is a makeshift: the reader may be misled otherwise."""
    if question.chosen.source == "fallback":
        terminal.print_remark(
            "note: the host's time zone has no known name, so this is UTC; name one with --zone"
        )
