"""What happens to a fleet, as plain values that follow from the seed."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Literal

from tests.verification.fleet.link import Weather

Mode = Literal["network", "host", "sqlite"]
"""Where the store is: on a server with a clock of its own, or on the host of all processes."""

START = datetime(2027, 3, 1, 9, 0, 45, tzinfo=UTC)
"""A quarter of a minute before the next occurrence of what schedulers run."""

SQLITE_SHARE = 0.012

_SECOND = timedelta(seconds=1)
_ACTS = {
    "once": 5,
    "keyed": 4,
    "series": 3,
    "ledger": 4,
    "cancel": 3,
    "chain": 3,
    "http": 3,
    "move": 1,
    "pause series": 1,
    "pause queue": 1,
    "maintenance": 2,
    "retry dead": 1,
    "poll": 2,
}
_DEEDS = {"kill": 4, "doom": 4, "freeze": 3, "cut": 2, "stop": 1, "fail over": 2, "jump": 2}


@dataclass(frozen=True, slots=True)
class Act:
    """What a client does, and how long after the start."""

    at: timedelta
    what: str
    number: int


@dataclass(frozen=True, slots=True)
class Deed:
    """What befalls a process or the store, and for how long."""

    at: timedelta
    what: str
    victim: int
    lasts: timedelta


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """How many processes of each sort a fleet has."""

    worker_count: int
    scheduler_count: int
    poller_count: int
    http_worker_count: int

    @property
    def total(self) -> int:
        return self.worker_count + self.scheduler_count + self.poller_count + self.http_worker_count


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """One life of a fleet, complete: playing it twice gives the same history."""

    seed: int
    mode: Mode
    span: timedelta
    lease_for: timedelta
    poll_for: timedelta
    limit: int | None
    counts: ProcessCounts
    weather: Weather
    acts: tuple[Act, ...]
    deeds: tuple[Deed, ...]

    @property
    def drifts(self) -> bool:
        """Whether clocks of hosts differ and are set. Only a server's own time makes up for it."""
        return self.mode == "network"

    @property
    def fails_calls(self) -> bool:
        """Whether calls of the store fail: then what happened may be written much later."""
        is_cut = any(deed.what in ("cut", "fail over") for deed in self.deeds)
        return is_cut or self.weather.fault_share > 0

    def describe(self) -> str:
        """The plan in lines."""
        lines = [
            f"seed {self.seed}: {self.mode}, {self.counts}, for {self.span}",
            f"lease {self.lease_for}, poll {self.poll_for}, limit {self.limit}, {self.weather}",
        ]
        lines += [f"after {act.at}: {act.what} {act.number}" for act in self.acts]
        lines += [
            f"after {deed.at}: {deed.what} {deed.victim} for {deed.lasts}" for deed in self.deeds
        ]
        return "\n".join(lines)


def draw_plan(seed: int, mode: Mode | None = None) -> FleetPlan:
    """The plan of this seed."""
    random = Random(f"fleet {seed}")
    drawn: Mode = "sqlite" if random.random() < SQLITE_SHARE else "host"
    if drawn == "host" and random.random() < 0.5:
        drawn = "network"
    span = random.choice((6, 12, 24)) * _SECOND
    counts = ProcessCounts(
        worker_count=random.choice((1, 1, 2, 2, 2, 3)),
        scheduler_count=random.choice((0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2)),
        poller_count=random.choice((0, 0, 0, 0, 2)),
        http_worker_count=int(random.random() < 0.12),
    )
    if counts.scheduler_count:
        counts = replace(counts, worker_count=1)
        span = max(span, random.choice((24, 80)) * _SECOND)  # with an occurrence or two
        drawn = "host" if drawn == "network" else drawn  # their axioms are judged by one clock
    mode = mode or drawn
    deeds = _draw_deeds(random, span, counts)
    if mode == "sqlite":
        cuts = [Deed(random.random() * span, "fail over", 0, _SECOND) for _ in range(3)]
        deeds = tuple(sorted((*deeds, *cuts), key=lambda deed: deed.at))
    acts = _draw_acts(random, span, counts)
    return FleetPlan(
        seed=seed,
        mode=mode,
        span=span,
        lease_for=random.choice((3, 5, 9, 15)) * _SECOND,
        poll_for=random.choice((6, 15, 30)) * _SECOND,
        limit=random.choice((None, None, 1, 2)),
        counts=counts,
        weather=_draw_weather(random),
        acts=acts,
        deeds=deeds,
    )


def _draw_weather(random: Random) -> Weather:
    return Weather(
        fault_share=random.choice((0, 0.03, 0.1, 0.25)),
        longest_delay=random.choice((0, 0, 0, 0.2, 3, 3)) * _SECOND,
    )


def _draw_acts(random: Random, span: timedelta, counts: ProcessCounts) -> tuple[Act, ...]:
    drawn = random.choices(tuple(_ACTS), tuple(_ACTS.values()), k=random.randint(2, 4))
    missing = {"poll"} if not counts.poller_count else set()
    missing |= {"http"} if not counts.http_worker_count else set()
    drawn = ["once" if what in missing else what for what in drawn]
    drawn[0] = random.choice(("once", "keyed"))
    if counts.poller_count:
        drawn[-1] = "poll"
    times = sorted(random.random() * 0.7 * span for _ in drawn)
    return tuple(
        Act(at, what, number) for number, (at, what) in enumerate(zip(times, drawn, strict=True))
    )


def _draw_deeds(random: Random, span: timedelta, counts: ProcessCounts) -> tuple[Deed, ...]:
    count = random.choice((0, 1, 2, 4))
    drawn = random.choices(tuple(_DEEDS), tuple(_DEEDS.values()), k=count)
    return tuple(
        Deed(
            at,
            what,
            random.randrange(counts.total),
            random.choice((0.5, 2, 9, 30)) * random.random() * _SECOND,
        )
        for at, what in sorted((random.random() * span, what) for what in drawn)
    )
