"""Enqueue one by one, in turns.

The time that a disk takes to flush drifts by a factor of two within minutes. So the processes of
all contestants on a store stay up, and each enqueues for a moment in every round. What is compared
is the ratio within each round: what drifts more slowly than a round cancels out.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from random import Random

from bench.queue_contest.harness.programs import ContestantError, Enqueuer, Entry
from bench.queue_contest.measures import Figures, Sizes, server_cpu


@dataclass
class Player:
    """One contestant in the rounds, and what it took in all of them."""

    entry: Entry
    enqueuer: Enqueuer
    count: float = 0.0
    server_seconds: float = 0.0

    @property
    def key(self) -> str:
        return self.entry.contestant.key

    def take_turn(self, seconds: float) -> Figures:
        """Jobs a second, and microseconds of the contestant's own process for each."""
        before = server_cpu(self.entry.place)
        turn = self.enqueuer.take_turn(seconds)
        self.server_seconds += server_cpu(self.entry.place) - before
        self.count += turn["count"]
        return {
            "rate": turn["count"] / turn["seconds"],
            "client_us": turn["cpu"] / turn["count"] * 1e6,
        }

    def totals(self) -> Figures:
        """The server's share, of all turns: its clock is too coarse for one."""
        return {"server_us": self.server_seconds / self.count * 1e6} if self.count else {}


def take_turns(
    entries: Iterable[AbstractContextManager[Entry]],
    sizes: Sizes,
    note: Callable[[str, Figures], None],
    leave_out: Callable[[str, ContestantError], None],
) -> None:
    """Let all take their turns in every round, in another order each time.

    ``note`` is given the figures of each turn. A contestant that fails is left out from then on.
    """
    with ExitStack() as stack:
        players = [player for each in entries if (player := _start(stack, each, leave_out))]
        chance = Random(sizes.rounds)
        for _ in range(sizes.rounds):
            order = chance.sample(players, len(players))
            players = [each for each in order if _take_turn(each, sizes, note, leave_out)]
        for player in players:
            note(player.key, player.totals())


def _take_turn(
    player: Player,
    sizes: Sizes,
    note: Callable[[str, Figures], None],
    leave_out: Callable[[str, ContestantError], None],
) -> bool:
    """Whether the player takes part in the next round as well."""
    try:
        note(player.key, player.take_turn(sizes.turn_seconds))
    except ContestantError as error:
        leave_out(player.key, error)
        return False
    return True


def _start(
    stack: ExitStack,
    opened: AbstractContextManager[Entry],
    leave_out: Callable[[str, ContestantError], None],
) -> Player | None:
    entry = stack.enter_context(opened)
    try:
        entry.tell("prepare")
        return Player(entry, stack.enter_context(entry.enqueuer()))
    except ContestantError as error:
        leave_out(entry.contestant.key, error)
        return None
