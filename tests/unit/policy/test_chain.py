"""Several gates at once."""

# ruff: noqa: DTZ001 - a naive datetime is what is refused

import random
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.errors import InvalidInputError
from rota.jobs import Job
from rota.policy.gates import (
    STEP_LIMIT,
    Chain,
    Closed,
    Gate,
    Maintenance,
    Open,
    Verdict,
    first_open,
)
from rota.policy.quiet_hours import QuietHours
from rota.testing import a_job

JOB = a_job(tenant="acme", queue="mail", name="send")
DAY = datetime(2026, 1, 5, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
NIGHT = QuietHours(time(22), time(7), UTC)


def at(hour: int, minute: int = 0, *, day: int = 0) -> datetime:
    return DAY + timedelta(days=day, hours=hour, minutes=minute)


def judge(*gates: Gate, now: datetime, notifies: bool = True) -> Verdict:
    return Chain(gates).judge(JOB, now, notifies=notifies)


@dataclass(frozen=True)
class OddHours:
    """A gate of a user's own: closed in every other hour."""

    reason: str = "odd hours"

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:  # noqa: ARG002 - given by Gate
        if now.hour % 2 == 0:
            return Open()
        return Closed(now.replace(minute=0, second=0, microsecond=0) + HOUR, self.reason)


@dataclass(frozen=True)
class Says:
    """A gate that always says the same."""

    verdict: Verdict

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:  # noqa: ARG002 - given by Gate
        return self.verdict


def test_no_gates_and_open_gates_are_open() -> None:
    assert judge(now=at(12)) == Open()
    assert judge(NIGHT, Maintenance(until=at(11)), now=at(12)) == Open()


def test_with_both_gates_closed_a_job_waits_for_the_later() -> None:
    window = Maintenance(from_at=at(21), until=at(23), reason="disks")
    held = judge(window, NIGHT, now=at(22, 30))
    assert held == Closed(at(7, day=1), "maintenance: disks; quiet hours")


def test_a_gate_that_closes_before_the_other_opens_is_waited_for_too() -> None:
    window = Maintenance(from_at=at(21), until=at(22, 30), reason="disks")
    held = judge(NIGHT, window, now=at(21, 30))
    assert held == Closed(at(7, day=1), "maintenance: disks; quiet hours")
    early = Maintenance(from_at=at(6, day=1), until=at(9, day=1))
    assert judge(early, NIGHT, now=at(23)) == Closed(at(9, day=1), "quiet hours; maintenance")


def test_a_gate_that_does_not_concern_the_job_is_not_waited_for() -> None:
    window = Maintenance(from_at=at(21), until=at(22, 30))
    assert judge(NIGHT, window, now=at(22), notifies=False) == Closed(at(22, 30), "maintenance")


def test_a_gate_of_ones_own_joins_the_others() -> None:
    assert judge(OddHours(), NIGHT, now=at(21, 30)) == Closed(
        at(8, day=1), "odd hours; quiet hours"
    )
    assert judge(OddHours(), NIGHT, now=at(20, 30)) == Open()


def test_a_maintenance_without_end_is_looked_at_again_in_five_minutes() -> None:
    held = judge(Maintenance(), NIGHT, now=at(12))
    assert held == Closed(at(12, 5), "maintenance", is_recheck=True)


def test_it_is_not_looked_at_again_while_another_gate_is_known_to_be_closed() -> None:
    held = judge(Maintenance(), NIGHT, now=at(23))
    assert held == Closed(at(7, day=1), "maintenance; quiet hours", is_recheck=True)
    just_before = judge(Maintenance(), NIGHT, now=at(21, 57))
    assert just_before == Closed(at(7, day=1), "maintenance; quiet hours", is_recheck=True)
    sooner = judge(Maintenance(), Maintenance(until=at(12, 1), reason="disks"), now=at(12))
    assert sooner == Closed(at(12, 5), "maintenance; maintenance: disks", is_recheck=True)


def test_a_maintenance_without_end_that_will_have_begun_is_looked_at_then() -> None:
    planned = Maintenance(from_at=at(6, day=1))
    held = judge(planned, NIGHT, now=at(23))
    assert held == Closed(at(7, day=1), "quiet hours; maintenance", is_recheck=True)


def test_chains_are_gates() -> None:
    inner = Chain([NIGHT, OddHours()])
    assert judge(inner, Maintenance(until=at(9, 30, day=1)), now=at(22)) == Closed(
        at(10, day=1), "quiet hours; maintenance; odd hours"
    )
    assert Chain([inner, Maintenance()]) == Chain((NIGHT, OddHours(), Maintenance()))


def test_gates_that_between_them_never_open_are_asked_again_when_the_steps_are_used_up() -> None:
    even = QuietHours(time(0), time(12), UTC)
    odd = QuietHours(time(12), time(0), UTC)
    held = judge(even, odd, now=at(0))
    assert held == Closed(at(12 * STEP_LIMIT), "quiet hours", is_recheck=True)


def test_a_gate_that_names_an_instant_that_has_been_is_asked_again_later() -> None:
    backward = Says(Closed(at(11), "confused"))
    assert judge(backward, now=at(12)) == Closed(at(12, 5), "confused", is_recheck=True)


def test_a_gate_that_names_a_naive_instant_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="reopens_at must be an aware"):
        judge(Says(Closed(datetime(2026, 1, 1), "confused")), now=at(12))


def test_a_naive_instant_cannot_be_asked_about() -> None:
    with pytest.raises(InvalidInputError, match="now must be an aware"):
        first_open([], JOB, datetime(2026, 1, 1), notifies=False)


def test_the_first_of_many_reasons_are_shown() -> None:
    gates = [Maintenance(until=at(13), reason=f"number {number}") for number in range(5)]
    held = judge(*gates, now=at(12))
    assert isinstance(held, Closed)
    assert held.reason == ("maintenance: number 0; maintenance: number 1; maintenance: number 2; …")


def some_gates(chance: random.Random) -> list[Gate]:
    gates: list[Gate] = [
        QuietHours(
            time(chance.randrange(24), chance.randrange(60)),
            time(chance.randrange(24), chance.randrange(60)),
            ZoneInfo(chance.choice(["Europe/London", "Asia/Kolkata", "America/New_York"])),
        )
        for _ in range(chance.randint(0, 2))
    ]
    for _ in range(chance.randint(0, 4)):
        begun = DAY + MINUTE * chance.randrange(2880)
        gates.append(Maintenance(from_at=begun, until=begun + MINUTE * chance.randint(1, 900)))
    return gates


@pytest.mark.parametrize("seed", range(25))
def test_the_first_minute_that_passes_all_gates_is_found(seed: int) -> None:
    chance = random.Random(seed)
    gates, now = some_gates(chance), DAY + MINUTE * chance.randrange(2880)

    def is_open(minute: datetime) -> bool:
        return all(gate.judge(JOB, minute, notifies=True) == Open() for gate in gates)

    minutes = (now + MINUTE * step for step in range(5 * 1440))
    expected = next(minute for minute in minutes if is_open(minute))
    held = first_open(gates, JOB, now, notifies=True)
    assert (held.reopens_at if isinstance(held, Closed) else now) == expected
