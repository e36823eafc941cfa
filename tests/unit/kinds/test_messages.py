"""``log.message``, and the kinds a worker is given."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from rota.errors import InvalidConfigurationError
from rota.kinds import BUILT_IN, make_built_in
from rota.kinds.log_message import LONGEST_MESSAGE
from rota.stores.memory import MemoryStore
from rota.telemetry.logs import JsonFormatter
from rota.testing import VirtualClock, a_job
from rota.worker import Context, Discard, Worker

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


async def say(payload: Any) -> Any:
    job = a_job(kind="log.message", tenant="guild-7", payload=payload)
    return await BUILT_IN["log.message"](Context(job, NOW))


async def test_a_message_is_logged_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rota.kinds.log")
    fields = {"order": 7, "who": "Ada"}
    assert await say({"message": "shipped", "level": "warning", "fields": fields}) is None
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.WARNING, 'shipped order=7 who="Ada"')
    line = json.loads(JsonFormatter().format(record))
    assert (line["guildId"], line["type"], line["attempts"]) == ("guild-7", "log.message", 1)
    assert (line["message"], line["said"]) == ("shipped", fields)


async def test_a_message_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rota.kinds.log")
    await say({"message": "a\nERROR b\x1b[2J", "fields": {"c\nd": "\u202ee"}})
    assert caplog.records[0].getMessage() == 'a\\x0aERROR b\\x1b[2J c\\x0ad="\\u202ee"'


@pytest.mark.parametrize(
    ("field", "payload"),
    [
        ("message", {}),
        ("message", {"message": 7}),
        ("message", {"message": "a" * (LONGEST_MESSAGE + 1)}),
        ("level", {"message": "a", "level": "shout"}),
        ("fields", {"message": "a", "fields": []}),
        ("colour", {"message": "a", "colour": "red"}),
        ("payload", ["a"]),
    ],
)
async def test_a_payload_that_cannot_be_used_is_given_up(field: str, payload: Any) -> None:
    returned = await say(payload)
    assert isinstance(returned, Discard)
    assert field in returned.reason


async def test_a_payload_without_a_message_gets_a_plain_error() -> None:
    assert await say({}) == Discard("message is missing")
    assert await say({"massage": "a"}) == Discard(
        "massage is not known here; did you mean message?"
    )


async def test_a_worker_does_the_built_in_kinds() -> None:
    clock, store = VirtualClock(NOW), MemoryStore()
    worker = Worker(store, {**BUILT_IN}, clock=clock)
    jobs = [
        a_job(kind="log.message", payload={"message": "hello"}, due_at=NOW),
        a_job(kind="http.request", payload={"url": "https://localhost/"}, due_at=NOW),
    ]
    await store.insert(jobs, NOW)
    settled = {it.job.kind: it.job for it in await worker.run_once()}
    assert settled["log.message"].status == "COMPLETED"
    assert settled["http.request"].status == "FAILED"
    assert "not public" in (settled["http.request"].last_error or "")


def test_both_ways_to_get_them_give_the_same_kinds() -> None:
    assert make_built_in({}).keys() == BUILT_IN.keys() == {"http.request", "log.message"}
    with pytest.raises(InvalidConfigurationError):
        make_built_in({"ROTA_HTTP_PORTS": "many"})
