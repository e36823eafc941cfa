"""Failures in groups: what is the same, and what is kept of it."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.telemetry.test_counters import failed, stalled

from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.telemetry import error_groups
from rota.telemetry.error_groups import (
    ERRORS,
    FORGOTTEN_AFTER,
    ErrorGroup,
    add_groups,
    find_place,
    group_of,
    read_groups,
    sign,
)
from rota.telemetry.stats_recorder import StatsRecorder
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

TRACE = """Traceback (most recent call last):
  File "app/shop/billing.py", line 42, in charge
    client.post(url)
  File ".venv/lib/python3.12/site-packages/httpx/client.py", line 9, in post
    raise ReadTimeout(1.5)
httpx.ReadTimeout: 1.5
"""
CHAINED = f"""Traceback (most recent call last):
  File "app/shop/cache.py", line 3, in look
KeyError: 'x'

During handling of the above exception, another exception occurred:

{TRACE}"""


def a_group(number: int = 0, *, at: datetime = NOW, count: int = 1) -> ErrorGroup:
    return ErrorGroup(
        id=f"g{number}", kind="work", name="KeyError", first_at=at, last_at=at, job_id="a",
        queue="mail", count=count, message=f"at {at:%H:%M}",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("traceback", "place"),
    [
        (None, ""),
        ("no frames", ""),
        (TRACE, "shop/billing.py:charge"),
        (CHAINED, "shop/billing.py:charge"),
        ('  File "C:\\app\\jobs.py", line 2, in <module>\nKeyError', "app/jobs.py:<module>"),
        (
            '  File "/usr/lib/python3.12/json/decoder.py", line 1, in decode\nValueError',
            "json/decoder.py:decode",
        ),
    ],
)
def test_the_place_is_the_innermost_frame_of_the_users_code(
    traceback: str | None, place: str
) -> None:
    assert find_place(traceback) == place


@pytest.mark.parametrize(
    ("outcome", "error", "name"),
    [
        ("failed", "KeyError: 'x'", "KeyError"),
        ("failed", "KeyError", "KeyError"),
        ("failed", "status 500 of https://example.com", "Error"),
        ("failed", None, "Error"),
        ("failed", TRACE, "httpx.ReadTimeout"),
        ("discarded", "not a CSV file", "Discarded"),
        ("lost", "Lost: worker w let its lease run out", "Lost"),
    ],
)
def test_the_name_is_that_of_the_exception(outcome: str, error: str | None, name: str) -> None:
    assert sign("work", outcome, error, None).name == name


def test_other_messages_are_one_group_and_other_places_or_kinds_another() -> None:
    first = sign("work", "failed", "KeyError: 'x'", TRACE)
    assert sign("work", "failed", "KeyError: 'y'", TRACE).id == first.id
    elsewhere = TRACE.replace("in charge", "in refund")
    ids = {
        first.id,
        sign("work", "failed", "KeyError: 'x'", elsewhere).id,
        sign("mail", "failed", "KeyError: 'x'", TRACE).id,
        sign("work", "failed", "ValueError: 'x'", TRACE).id,
    }
    assert len(ids) == 4


def test_a_group_adds_up_and_shows_its_latest_failure() -> None:
    early, late = a_group(at=NOW), a_group(at=NOW + MINUTE, count=2)
    for total in (early + late, late + early):
        assert (total.count, total.first_at, total.last_at) == (3, NOW, NOW + MINUTE)
        assert total.message == "at 12:01"


def test_of_too_many_groups_the_latest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_groups, "MOST_GROUPS", 2)
    kept = add_groups({}, [a_group(number, at=NOW + number * MINUTE) for number in range(3)])
    assert [*kept] == ["g2", "g1"]
    later = a_group(9, at=NOW + FORGOTTEN_AFTER + 2 * MINUTE)
    assert [*add_groups(kept, [later])] == ["g9", "g2"]


def test_a_lost_worker_is_a_group_of_its_own() -> None:
    group = group_of(stalled(), NOW)
    assert (group.name, group.place) == ("Lost", "")
    assert group.message.startswith("Lost: worker ")


async def test_several_processes_add_to_the_same_groups_of_a_tenant() -> None:
    store = MemoryStore()
    await store.write_all([DocumentWrite(ERRORS, "a", None, b"unreadable")])
    event = failed("dlq")
    for _ in range(2):
        recorder = StatsRecorder(store, VirtualClock(NOW))
        recorder.observe(event)
        recorder.observe(failed())
        await recorder.flush()
    (group,) = (await read_groups(store, event.tenant)).values()
    assert (group.count, group.dead_count, group.job_id) == (4, 2, event.job_id)
    assert await read_groups(store, "a") == {}
