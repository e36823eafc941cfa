"""Spans from asking for a job to its runs."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.unit.worker.workshop import NOW, SECOND, Workshop, succeed

from rota import open_store
from rota.jobs import Job, Recurrence
from rota.telemetry.tracing import Tracing, read_trace
from rota.testing import a_job
from rota.worker import Context, Discard, Snooze

ASKED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Recorder:
    """A provider of its own, and the spans that ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(self.provider)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


async def run(recorder: Recorder, work: Callable[[Context], Any], **fields: Any) -> Job:
    shop = Workshop()
    shop.make_worker(recorder.tracing.handlers({"work": work}))
    job = a_job(kind="work", created_at=NOW - SECOND, **fields)
    await recorder.tracing.store(shop.store).insert([job], NOW)
    await shop.clock.run(shop.worker.run_once())
    return await shop.look(job)


async def test_a_run_belongs_to_the_trace_in_which_the_job_was_asked_for(
    recorder: Recorder,
) -> None:
    with recorder.provider.get_tracer("app").start_as_current_span("request"):
        job = await run(recorder, succeed, tenant="guild-7", queue="mail")
    request, asked, ran = (recorder.span(it) for it in ("request", "enqueue work", "run work"))
    assert asked.parent is not None
    assert ran.parent is not None
    assert asked.parent.span_id == ids(request)[1]
    assert (ran.parent.trace_id, ran.parent.span_id) == ids(asked)
    assert (asked.kind, ran.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert dict(ran.attributes or {}) == {
        "messaging.system": "rota",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "rota.kind": "work",
        "rota.tenant": "guild-7",
        "rota.attempt": 1,
        "rota.wait_ms": 1000.0,
    }


async def test_the_trace_is_kept_with_the_job_for_other_processes(
    recorder: Recorder, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path.joinpath('rota.db')}"
    job = a_job()
    async with recorder.tracing.store(await open_store(url)) as store:
        await store.insert([job], NOW)
    async with await open_store(url) as store:
        kept = (await store.get(job.tenant, [job.id]))[job.id]
    found = read_trace(kept.trace)
    assert found is not None
    assert (found.trace_id, found.span_id) == ids(recorder.span("enqueue a job"))


async def test_spans_of_a_handlers_own_are_under_its_run(recorder: Recorder) -> None:
    tracer = recorder.provider.get_tracer("app")

    async def work(_: Context) -> None:
        with tracer.start_as_current_span("send"):
            pass

    def work_in_thread(_: Context) -> None:
        with tracer.start_as_current_span("send from a thread"):
            pass

    await run(recorder, work)
    await run(recorder, work_in_thread)
    runs = recorder.spans("run work")
    sent = [recorder.span("send"), recorder.span("send from a thread")]
    assert [span.parent and span.parent.span_id for span in sent] == [ids(it)[1] for it in runs]


async def test_runs_of_a_series_begin_their_own_traces_and_link_to_the_first(
    recorder: Recorder,
) -> None:
    series = Recurrence(interval="1h", start=NOW - SECOND)
    await run(recorder, succeed, recurrence=series, occurrence_at=NOW - SECOND, trace=ASKED)
    ran = recorder.span("run work")
    asked = read_trace(ASKED)
    assert asked is not None
    assert ran.parent is None
    assert ids(ran)[0] != asked.trace_id
    assert [link.context.span_id for link in ran.links] == [asked.span_id]
    assert recorder.spans("enqueue work") == []


async def test_a_run_that_fails_says_so(recorder: Recorder) -> None:
    async def work(_: Context) -> None:
        raise ValueError("no")

    await run(recorder, work)
    ran = recorder.span("run work")
    assert ran.status.status_code is StatusCode.ERROR
    assert [event.name for event in ran.events] == ["exception"]


@pytest.mark.parametrize(
    ("returned", "outcome", "code"),
    [
        (Snooze(timedelta(minutes=1)), "snoozed", StatusCode.UNSET),
        (Discard("no such pair"), "discarded", StatusCode.ERROR),
    ],
)
async def test_a_job_that_is_not_done_by_its_run_says_so(
    recorder: Recorder, returned: Snooze | Discard, outcome: str, code: StatusCode
) -> None:
    async def work(_: Context) -> Snooze | Discard:
        return returned

    await run(recorder, work)
    ran = recorder.span("run work")
    assert (ran.attributes or {})["rota.outcome"] == outcome
    assert ran.status.status_code is code


async def test_jobs_put_in_together_share_a_span(recorder: Recorder) -> None:
    shop = Workshop()
    jobs = [a_job(), a_job(), a_job(trace=ASKED)]
    inserted = await recorder.tracing.store(shop.store).insert(jobs, NOW)
    traces = [each.job.trace for each in inserted]
    assert traces[0] == traces[1] != ASKED
    assert traces[2] == ASKED
    assert (recorder.span("enqueue").attributes or {})["messaging.batch.message_count"] == 2


@pytest.mark.parametrize("text", [None, "", "no trace", ASKED[:-3], "00-" + "0" * 32 + ASKED[35:]])
async def test_a_trace_that_names_none_is_passed_over(recorder: Recorder, text: str | None) -> None:
    assert read_trace(text) is None
    await run(recorder, succeed, trace=text or "none")
    assert recorder.span("run work").parent is None


async def test_without_a_provider_jobs_carry_no_trace() -> None:
    shop = Workshop()
    store = Tracing(trace.NoOpTracerProvider()).store(shop.store)
    (inserted,) = await store.insert([a_job()], NOW)
    assert inserted.job.trace is None
