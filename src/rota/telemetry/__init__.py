"""Counters, logs, metrics, traces, and findings that need attention.

Telemetry subscribes to events. An event without subscribers is never created, so unused telemetry
costs nothing. ``rota.telemetry.metrics`` needs the extra ``rota[metrics]`` and
``rota.telemetry.tracing`` the extra ``rota[otel]``; import them by their own names.
"""

from rota.telemetry.counters import COUNTERS, TIMINGS, Counters, Journal, Timing
from rota.telemetry.health import Finding, Standing, Thresholds, list_findings, take_standing
from rota.telemetry.logs import JsonFormatter
from rota.telemetry.stats import DepthSample, DurationTally, MinuteTally, read_tallies
from rota.telemetry.stats_recorder import DepthSampler, Tally

__all__ = [
    "COUNTERS",
    "TIMINGS",
    "Counters",
    "DepthSample",
    "DepthSampler",
    "DurationTally",
    "Finding",
    "Journal",
    "JsonFormatter",
    "MinuteTally",
    "Standing",
    "Tally",
    "Thresholds",
    "Timing",
    "list_findings",
    "read_tallies",
    "take_standing",
]
