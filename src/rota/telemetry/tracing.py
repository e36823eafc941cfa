"""OpenTelemetry spans from the enqueue of a job to each of its runs.

The trace travels with the job as the W3C ``traceparent`` in ``Job.trace``. A traced store writes it
on insert; a traced handler reads it when the job runs, in any process. Neither costs anything when
unused.
"""

import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from rota.errors import MissingExtraError
from rota.jobs import Job
from rota.stores.protocol import Inserted, JobStore
from rota.worker.context import Context, Discard, Snooze
from rota.worker.registry import Work

try:
    from opentelemetry import trace
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise MissingExtraError("Traces", "opentelemetry-api", "otel") from error

AnyStore = TypeVar("AnyStore", bound=JobStore)
AnyWork = TypeVar("AnyWork", bound=Work)

_HEADER = "traceparent"
_PROPAGATOR = TraceContextTextMapPropagator()
_MILLISECOND = timedelta(milliseconds=1)


class Tracing:
    """Creates spans with the given provider, or with the program's global one."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("rota", tracer_provider=provider)

    def store(self, store: AnyStore) -> AnyStore:
        """The store with a span around every insert; the jobs carry it.

        A job that already has a trace, such as the next of a series, keeps it.
        """
        return cast("AnyStore", _TracedStore(store, self._tracer))

    def handler(self, work: AnyWork) -> AnyWork:
        """The handler with a span around each run, the parent of the handler's own spans.

        The span belongs to the trace of the enqueue. Each job of a series starts its own trace,
        with a link to that one.
        """
        traced = self._trace_async(work) if _is_async(work) else self._trace_plain(work)
        return cast("AnyWork", functools.wraps(work)(traced))

    def handlers(self, works: Mapping[str, Work]) -> dict[str, Work]:
        """All these handlers, each traced."""
        return {kind: self.handler(work) for kind, work in works.items()}

    def _trace_async(self, work: Work) -> Work:
        async def run(context: Context) -> Any:
            with self._run_span(context) as span:
                return _note_result(span, await work(context))

        return run

    def _trace_plain(self, work: Work) -> Work:
        def run(context: Context) -> Any:
            with self._run_span(context) as span:
                return _note_result(span, work(context))

        return run

    @contextmanager
    def _run_span(self, context: Context) -> Iterator[Span]:
        job = context.job
        asked = read_trace(job.trace)
        is_series = job.recurrence is not None
        parent = None if asked is None else trace.set_span_in_context(trace.NonRecordingSpan(asked))
        with self._tracer.start_as_current_span(
            f"run {job.kind}",
            context=trace.set_span_in_context(trace.INVALID_SPAN) if is_series else parent,
            kind=SpanKind.CONSUMER,
            attributes=describe_run(context),
            links=[Link(asked)] if is_series and asked is not None else (),
        ) as span:
            yield span


class _TracedStore:
    """Adds the current span to inserted jobs; passes everything else to the store."""

    def __init__(self, store: JobStore, tracer: trace.Tracer) -> None:
        self._store = store
        self._tracer = tracer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def __aenter__(self) -> "_TracedStore":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        with self._enqueue_span(jobs) as traced:
            return await self._store.insert(traced, now)

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        with self._enqueue_span(jobs) as traced:
            return await self._store.insert_within(connection, traced, now)

    @contextmanager
    def _enqueue_span(self, jobs: Sequence[Job]) -> Iterator[list[Job]]:
        untraced = [job for job in jobs if job.trace is None]
        if not untraced:
            yield list(jobs)
            return
        with self._tracer.start_as_current_span(
            f"enqueue {untraced[0].kind}" if len(untraced) == 1 else "enqueue",
            kind=SpanKind.PRODUCER,
            attributes=_describe_batch(untraced),
        ):
            written = write_trace()
            yield [job if job.trace is not None else replace(job, trace=written) for job in jobs]


def write_trace() -> str | None:
    """The current span as a ``traceparent``; None outside a span."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier.get(_HEADER)


def read_trace(text: str | None) -> SpanContext | None:
    """The span named by a ``traceparent``; None when it is not valid."""
    if text is None:
        return None
    found = trace.get_current_span(_PROPAGATOR.extract({_HEADER: text})).get_span_context()
    return found if found.is_valid else None


def describe_run(context: Context) -> dict[str, str | int | float]:
    """The attributes of a run's span, without payload and error text."""
    job = context.job
    waited_for = timedelta(0) if job.lease is None else job.lease.taken_at - job.due_at
    return {
        **_describe_job(job),
        "rota.attempt": context.attempt,
        "rota.wait_ms": max(waited_for / _MILLISECOND, 0.0),
    }


def _describe_batch(jobs: Sequence[Job]) -> dict[str, str | int]:
    if len(jobs) == 1:
        return _describe_job(jobs[0])
    return {"messaging.system": "rota", "messaging.batch.message_count": len(jobs)}


def _describe_job(job: Job) -> dict[str, str | int]:
    return {
        "messaging.system": "rota",
        "messaging.destination.name": job.queue,
        "messaging.message.id": job.id,
        "rota.kind": job.kind,
        "rota.tenant": job.tenant,
    }


def _note_result(span: Span, returned: Any) -> Any:
    """Record on the span what the handler returned, if the job is not completed by it."""
    if isinstance(returned, Snooze):
        span.set_attribute("rota.outcome", "snoozed")
    elif isinstance(returned, Discard):
        span.set_attribute("rota.outcome", "discarded")
        span.set_status(StatusCode.ERROR, "discarded")
    return returned


def _is_async(work: Work) -> bool:
    return inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(
        getattr(work, "__call__", None)  # noqa: B004 - not whether, but what it is
    )
