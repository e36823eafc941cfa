"""Which calls suffer what."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from random import Random
from typing import NamedTuple


class Failure(Enum):
    """When a call fails, and what its caller knows of it.

    ``BEFORE`` anything was done, and the error says so. ``AFTER`` everything was done, or ``LOST``
    on the way there and nothing done: these two look alike, for the outcome is unknown.
    """

    BEFORE = "before it was carried out"
    AFTER = "after it was carried out"
    LOST = "on its way, and is not carried out"

    @property
    def outcome(self) -> str:
        """What ``details["outcome"]`` of the error says."""
        return "nothing was written" if self is Failure.BEFORE else "unknown"


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls one call: it begins late, its answer comes late, it fails, or several."""

    failure: Failure | None = None
    delay_for: timedelta = timedelta(0)
    answer_delay_for: timedelta = timedelta(0)


class StoreCall(NamedTuple):
    """One call of a store, counted from 1; each page of a scan is a call."""

    number: int
    verb: str


Faults = Callable[[StoreCall], Fault | None]
"""Asked once for each call, in order, what befalls it."""


def scripted_faults(faults: Mapping[int, Fault]) -> Faults:
    """Faults for calls with these numbers, whatever their verb."""
    return lambda call: faults.get(call.number)


def faults_on(verbs: Collection[str], faults: Faults) -> Faults:
    """Faults for calls of these verbs alone, which are counted from 1 by themselves."""
    met = 0

    def draw(call: StoreCall) -> Fault | None:
        nonlocal met
        if call.verb not in verbs:
            return None
        met += 1
        return faults(StoreCall(met, call.verb))

    return draw


def seeded_faults(
    seed: int,
    *,
    fault_share: float,
    failures: Sequence[Failure | None] = (Failure.BEFORE, Failure.AFTER, None),
    longest_delay: timedelta = timedelta(0),
) -> Faults:
    """Faults for about ``fault_share`` of all calls (0 to 1), the same ones for the same seed.

    Each is drawn from ``failures``, None standing for a call that succeeds, and comes with delays
    of up to ``longest_delay`` before the call and before its answer.
    """
    random = Random(seed)  # noqa: S311 - must be repeatable, not secret

    def draw(_: StoreCall) -> Fault | None:
        is_struck = random.random() < fault_share
        fault = Fault(
            random.choice(failures),
            random.random() * longest_delay,
            random.random() * longest_delay,
        )
        return fault if is_struck else None

    return draw
