"""Watching what happens: counters, logs, metrics, traces, and what needs looking at.

Everything here listens to events that are made only when somebody listens, so that nothing is paid
for what nobody observes. ``rota.telemetry.metrics`` needs the extra ``rota[metrics]`` and
``rota.telemetry.tracing`` the extra ``rota[otel]``; they are therefore imported by their own names.
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
