"""The log of an attempt."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.worker.workshop import NOW, Workshop

from rota.testing import VirtualClock
from rota.worker import Context, WorkerSettings
from rota.worker.attempts import LARGEST_LOG, Attempt, LogCapture
from rota.worker.context import JOB_LOGGER
from rota.worker.executor import Executor

elsewhere = logging.getLogger("shop.mail")


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """What was captured, attempt by attempt."""
    found: list[str | None] = []
    call: Callable[..., Any] = Executor._call

    async def note(self: Executor, handler: Any, attempt: Attempt, context: Context) -> Any:
        try:
            return await call(self, handler, attempt, context)
        finally:
            found.append(None if attempt.log is None else attempt.log.text())

    monkeypatch.setattr(Executor, "_call", note)
    return found


async def test_both_loggers_of_a_handler_are_captured(
    shop: Workshop, logs: list[str | None]
) -> None:
    async def work(context: Context) -> None:
        context.log.info("sent %d", 3)
        elsewhere.warning("slow")
        logging.getLogger("rota.worker").warning("about the worker")

    shop.make_worker({"work": work})
    await shop.add()
    await shop.worker.run_once()
    (log,) = logs
    assert (log or "").splitlines() == [
        "2026-05-01T12:00:00.000Z INFO rota.job: sent 3",
        "2026-05-01T12:00:00.000Z WARNING shop.mail: slow",
    ]


async def test_threads_and_tasks_of_a_handler_belong_to_it(
    shop: Workshop, logs: list[str | None]
) -> None:
    async def start_task(context: Context) -> None:
        async def note() -> None:
            elsewhere.warning("task of %s", context.payload["name"])
            await asyncio.to_thread(elsewhere.warning, "thread of %s", context.payload["name"])

        await asyncio.create_task(note())

    shop.make_worker({"work": start_task})
    for name in ("a", "b"):
        await shop.add(payload={"name": name})
    await shop.clock.run(shop.worker.run_once())
    for name, log in zip("ab", sorted(it or "" for it in logs), strict=True):
        assert f"task of {name}" in log
        assert f"thread of {name}" in log
        assert len(log.splitlines()) == 2


async def test_a_plain_function_is_captured_in_its_thread(
    shop: Workshop, logs: list[str | None]
) -> None:
    shop.make_worker({"work": lambda context: context.log.info("in a thread")})
    await shop.add()
    await shop.clock.run(shop.worker.run_once())
    assert "INFO rota.job: in a thread" in (logs[0] or "")


async def test_tracebacks_and_broken_messages_are_kept(
    shop: Workshop, logs: list[str | None]
) -> None:
    async def work(context: Context) -> None:
        try:
            context.payload["missing"]
        except KeyError:
            context.log.exception("lookup")
        context.log.info("%d items", "no number", extra={"more": 1})

    shop.make_worker({"work": work})
    await shop.add()
    was_raising, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        await shop.worker.run_once()
    finally:
        logging.raiseExceptions = was_raising
    (log,) = logs
    assert "ERROR rota.job: lookup\nTraceback" in (log or "")
    assert "KeyError: 'missing'" in (log or "")
    assert "'%d items' (TypeError" in (log or "")


async def test_nothing_is_captured_when_it_is_switched_off(
    shop: Workshop, logs: list[str | None]
) -> None:
    async def work(context: Context) -> None:
        context.log.warning("seen elsewhere")

    shop.make_worker({"work": work}, WorkerSettings(captures_logs=False))
    factory = logging.getLogRecordFactory()
    await shop.add()
    await shop.worker.run_once()
    assert logs == [None]
    assert logging.getLogRecordFactory() is factory


async def test_a_worker_leaves_logging_as_it_found_it(shop: Workshop) -> None:
    factory, handlers = logging.getLogRecordFactory(), list(logging.getLogger().handlers)
    seen: list[bool] = []

    async def work(_: Context) -> None:
        seen.append(logging.getLogger().handlers == handlers)

    shop.make_worker({"work": work})
    await shop.add()
    await shop.worker.run_once()
    assert logging.getLogRecordFactory() is factory
    assert seen == [True]


async def test_records_have_the_fields_of_the_job(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(context: Context) -> None:
        context.log.error("with fields", extra={"user": 7})

    shop.make_worker({"work": work})
    job = await shop.add(tenant="guild-7")
    await shop.worker.run_once()
    (record,) = [it for it in caplog.records if it.name == JOB_LOGGER]
    fields = vars(record)
    assert (fields["job_id"], fields["tenant"], fields["attempt"]) == (job.id, "guild-7", 1)
    assert (fields["user"], record.filename) == (7, "test_job_log.py")


async def test_the_level_of_the_program_decides_what_it_logs(
    shop: Workshop, caplog: pytest.LogCaptureFixture, logs: list[str | None]
) -> None:
    async def work(context: Context) -> None:
        context.log.info("quiet")
        context.log.debug("never")

    shop.make_worker({"work": work})
    await shop.add()
    with caplog.at_level(logging.WARNING):
        await shop.worker.run_once()
    assert not [it for it in caplog.records if it.name == JOB_LOGGER]
    assert (logs[0] or "").endswith("quiet\n")


def test_a_long_log_is_cut_in_the_middle() -> None:
    capture = LogCapture(VirtualClock(NOW))
    for number in range(5_000):
        capture.add_text(f"line {number}\n")
    text = capture.text() or ""
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 4998\nline 4999\n")
    assert "bytes cut …\n" in text
    assert LARGEST_LOG - 100 < len(text.encode()) <= LARGEST_LOG


def test_one_huge_line_does_not_exceed_the_bound() -> None:
    capture = LogCapture(VirtualClock(NOW))
    capture.add_text("first\n")
    capture.add_text("é" * 100_000 + "\n")
    text = capture.text() or ""
    assert text.startswith("first\n… ")
    assert text.endswith("é\n")
    assert len(text.encode()) <= LARGEST_LOG


def test_an_empty_log_is_none() -> None:
    assert LogCapture(VirtualClock(NOW)).text() is None
