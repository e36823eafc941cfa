"""The Prometheus metrics of what the processes watch for."""

from datetime import datetime
from itertools import islice

from rota.errors import MissingExtraError
from rota.telemetry.metrics import LABEL_LIMIT
from rota.telemetry.notices import Notice, NoticeConcern, Report

try:
    import prometheus_client as prometheus
except ModuleNotFoundError as error:
    raise MissingExtraError("Prometheus metrics", "prometheus-client", "metrics") from error


class NoticeMetrics:
    """What the processes watch for. A condition has a series only while it lasts."""

    def __init__(self, registry: prometheus.CollectorRegistry, limit: int = LABEL_LIMIT) -> None:
        self._limit = limit
        self._gauges = {
            concern: prometheus.Gauge(name, text, labels, registry=registry)
            for concern, (name, text, labels) in _NOTICE_GAUGES.items()
        }
        self._watched_at = prometheus.Gauge(
            "rota_watch_timestamp_seconds",
            "When a process last looked for held jobs, troubled tasks and missed successes.",
            registry=registry,
        )

    def show(self, report: Report, now: datetime) -> None:
        """Show the latest report, as of now."""
        self._watched_at.set(report.taken_at.timestamp())
        for concern, gauge in self._gauges.items():
            gauge.clear()
            found = (it for it in report.notices if it.concern == concern)
            for notice in islice(found, self._limit):
                value = notice.count if concern in _COUNTED else notice.seconds_at(now)
                gauge.labels(**_label_notice(notice, _NOTICE_GAUGES[concern][2])).set(value)


_NOTICE_GAUGES: dict[NoticeConcern, tuple[str, str, tuple[str, ...]]] = {
    "held": (
        "rota_held_jobs",
        "Jobs that maintenance or a paused series holds back.",
        ("source", "tenant", "name"),
    ),
    "task_late": (
        "rota_task_late_seconds",
        "How long a declarative task has been due without a start.",
        ("task",),
    ),
    "task_fails": (
        "rota_task_failed_runs",
        "How often a declarative task has failed since its last success.",
        ("task",),
    ),
    "overdue": (
        "rota_success_overdue_seconds",
        "How long ago a series or task should have succeeded: its dead-man switch has fired.",
        ("source", "tenant", "name"),
    ),
}
_COUNTED = frozenset({"held", "task_fails"})


def _label_notice(notice: Notice, names: tuple[str, ...]) -> dict[str, str]:
    values = {"source": notice.source, "tenant": notice.tenant, "name": notice.name}
    return {name: values.get(name, notice.name) for name in names}
