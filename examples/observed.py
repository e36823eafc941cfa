"""Sentry and OpenTelemetry around every run of every task.

Run it with ``rota work observed:app``. ``SENTRY_DSN`` names the Sentry project; without it nothing
is sent. The spans are printed; put the exporter that the rest of your program uses in the place of
``ConsoleSpanExporter``.
"""

from typing import Any

import sentry_sdk
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from rota import Context, Rota
from rota.worker import CallNext

sentry_sdk.init()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
tracer = provider.get_tracer("shop")


async def trace_runs(context: Context, call_next: CallNext) -> Any:
    with tracer.start_as_current_span(context.job.kind) as span:
        span.set_attributes({"job.id": context.job.id, "job.attempt": context.attempt})
        return await call_next()  # an exception is recorded on the span, and passes on


async def report_errors(context: Context, call_next: CallNext) -> Any:
    with sentry_sdk.isolation_scope() as scope:
        scope.set_transaction_name(context.job.kind)
        scope.set_tag("job.id", context.job.id)
        scope.set_tag("job.attempt", context.attempt)
        try:
            return await call_next()
        except Exception as error:
            if context.is_last_attempt:  # without this line, every attempt is reported
                sentry_sdk.capture_exception(error)
            raise


app = Rota(middleware=[trace_runs, report_errors])


@app.task(name="charge", retry={"max_attempts": 2, "base_delay_seconds": 1})
def charge(order: int, cents: int) -> str:
    if cents <= 0:
        raise ValueError(f"cannot charge {cents} for order {order}")
    with tracer.start_as_current_span("ask the bank"):
        return f"charged {cents} for order {order}"
