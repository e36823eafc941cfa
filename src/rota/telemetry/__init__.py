"""Counters, logs, metrics, traces, and findings that need attention.

Telemetry subscribes to events. An event without subscribers is never created, so unused telemetry
costs nothing. ``rota.telemetry.metrics`` needs the extra ``rota[metrics]`` and
``rota.telemetry.tracing`` the extra ``rota[otel]``; import them by their own names.
"""

from rota.telemetry.counters import COUNTERS, TIMINGS, Counters, Timing
from rota.telemetry.health import Finding, StoreStatus, Thresholds, list_findings, read_store_status
from rota.telemetry.logs import JsonFormatter
from rota.telemetry.stats import DepthSample, DurationStats, MinuteStats, read_stats
from rota.telemetry.stats_recorder import DepthSampler, StatsRecorder

__all__ = [
    "COUNTERS",
    "TIMINGS",
    "Counters",
    "DepthSample",
    "DepthSampler",
    "DurationStats",
    "Finding",
    "JsonFormatter",
    "MinuteStats",
    "StatsRecorder",
    "StoreStatus",
    "Thresholds",
    "Timing",
    "list_findings",
    "read_stats",
    "read_store_status",
]
