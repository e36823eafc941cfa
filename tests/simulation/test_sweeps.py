"""Calls that meet at every turn of the event loop, and deaths at every call of the store.

What seeds find by chance is tried here one by one: at each possible moment, once. With
``SWEEPS=all`` each is tried on a quick store and on a slow one.
"""

import os
from datetime import UTC, datetime, timedelta

import pytest
from tests.verification.simulation import Story, try_story
from tests.verification.simulation.story import (
    CallInitialize,
    CallStop,
    Crash,
    CrashAtCall,
    Deed,
    EditionName,
    Jump,
    Release,
    Step,
    StoreNature,
    TaskNature,
)
from tests.verification.trace import RunStarted, TaskFacts

from rota.testing.faults import Failure, Fault

NOON = datetime(2024, 3, 4, 12, 0, 30, tzinfo=UTC)
NO_TIME = timedelta()
MINUTE = timedelta(minutes=1)
A = TaskFacts("a", "* * * * *", MINUTE)
B = TaskFacts("b", "0,1,2 * * * *", timedelta(milliseconds=5))
CHANGED = (TaskFacts("a", "* * * * *", 2 * MINUTE), TaskFacts("c", "* * * * *", MINUTE))
BOTH = CallInitialize((A, B))
TURNS = 26
"""More than any call needs from its beginning to its end at one instant."""

STORE_TURNS = {NO_TIME: (3,), timedelta(seconds=45): (0,), 90 * MINUTE: (3,)}
"""How long tasks run, and how many turns of the event loop a call of the store takes then."""

editions = pytest.mark.parametrize("edition", ["declarative", "polling"])
lengths = pytest.mark.parametrize("length", list(STORE_TURNS))


def tell(
    edition: EditionName,
    length: timedelta,
    *steps: Step,
    struck: tuple[tuple[int, Fault], ...] = (),
) -> None:
    """Play a story in which every task runs this long, on one store or two."""
    for turns in (0, 3) if os.environ.get("SWEEPS") == "all" else STORE_TURNS[length]:
        story = Story(
            seed=turns,
            edition=edition,
            zone="UTC",
            start=NOON,
            store="memory",
            natures={name: TaskNature((length,), failure_share=0.5) for name in "abc"},
            store_nature=StoreNature(turns, struck=struck),
            steps=(*steps, Step(3 * MINUTE, 0, Release())),
        )
        try_story(story).verdict.assert_ok()


def at_once(turns: int, deed: Deed) -> Step:
    return Step(NO_TIME, turns, deed)


def later(deed: Deed) -> Step:
    return Step(timedelta(seconds=90), 0, deed)


@editions
@lengths
def test_stop_at_any_moment_after_initialize(edition: EditionName, length: timedelta) -> None:
    for turns in range(TURNS):
        tell(edition, length, at_once(0, BOTH), at_once(turns, CallStop()), later(BOTH))


@editions
@lengths
def test_initialize_at_any_moment_after_stop(edition: EditionName, length: timedelta) -> None:
    for turns in range(TURNS):
        tell(
            edition,
            length,
            at_once(0, BOTH),
            later(CallStop()),
            at_once(turns, CallInitialize(CHANGED)),
            later(BOTH),
        )


@editions
@lengths
def test_initialize_at_any_moment_after_initialize(edition: EditionName, length: timedelta) -> None:
    for turns in range(TURNS):
        tell(edition, length, at_once(0, BOTH), at_once(turns, CallInitialize(CHANGED)))


@editions
@lengths
def test_a_crash_at_any_moment_after_initialize(edition: EditionName, length: timedelta) -> None:
    for turns in range(TURNS):
        tell(edition, length, at_once(0, BOTH), at_once(turns, Crash()), later(BOTH))


@editions
@lengths
@pytest.mark.parametrize("is_served", [True, False])
def test_a_crash_in_any_call_of_the_store(
    edition: EditionName, length: timedelta, is_served: bool
) -> None:
    for calls_ahead in range(1, 16):
        tell(
            edition,
            length,
            at_once(0, BOTH),
            at_once(1, CrashAtCall(calls_ahead, is_served)),
            later(CallInitialize(CHANGED)),
            later(CallStop()),
            later(BOTH),
            later(BOTH),
        )


@editions
@lengths
@pytest.mark.parametrize("failure", list(Failure), ids=lambda failure: failure.name.lower())
@pytest.mark.parametrize(
    "deeds",
    [
        (),
        (Jump(timedelta(seconds=-75)),),
        (Jump(20 * MINUTE),),
        (CallInitialize(CHANGED),),
        (CallStop(), BOTH),
        (Crash(), CallInitialize(CHANGED)),
    ],
    ids=["nothing", "clock set back", "host asleep", "initialize", "restart", "crash"],
)
def test_any_call_of_the_store_may_fail_and_anything_may_follow(
    edition: EditionName, length: timedelta, failure: Failure, deeds: tuple[Deed, ...]
) -> None:
    for number in range(1, 12):
        steps = [at_once(0, BOTH), *(Step(timedelta(seconds=31), 0, deed) for deed in deeds)]
        tell(edition, length, *steps, struck=((number, Fault(failure)),))
        steps = [at_once(0, BOTH), *(at_once(30, deed) for deed in deeds)]
        tell(edition, length, *steps, struck=((number, Fault(failure)),))


@lengths
def test_a_task_removed_and_registered_again_at_any_moment(length: timedelta) -> None:
    for turns in range(TURNS):
        tell(
            "polling",
            length,
            at_once(0, BOTH),
            later(CallInitialize((B,))),
            at_once(turns, CallInitialize((A, B))),
        )


def test_the_sweeps_are_about_tasks_that_run() -> None:
    story = Story(
        seed=0,
        edition="declarative",
        zone="UTC",
        start=NOON,
        store="memory",
        natures={},
        store_nature=StoreNature(),
        steps=(at_once(0, BOTH), later(CallStop())),
    )
    trace = try_story(story).verdict.trace
    starts = [entry for entry in trace if isinstance(entry, RunStarted)]
    assert [(start.name, start.at.minute) for start in starts] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("b", 1),
        ("a", 2),
        ("b", 2),
    ]


@editions
@pytest.mark.parametrize("is_stopped_again", [False, True])
def test_initialize_at_any_moment_while_stop_waits_for_one_that_fails(
    edition: EditionName, is_stopped_again: bool
) -> None:
    last = [at_once(2, CallStop())] if is_stopped_again else []
    for stop_turns in range(8):
        for turns in range(8):
            steps = (at_once(0, BOTH), at_once(stop_turns, CallStop()), at_once(turns, BOTH), *last)
            for number in (1, 2):
                struck = ((number, Fault(Failure.BEFORE)),)
                tell(edition, NO_TIME, *steps, later(BOTH), struck=struck)
