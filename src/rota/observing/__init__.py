"""Watching what happens: counters, logs, metrics, traces, and what needs looking at.

Everything here listens to events that are made only when somebody listens, so that nothing is paid
for what nobody observes. ``rota.observing.metrics`` needs the extra ``rota[metrics]`` and
``rota.observing.tracing`` the extra ``rota[otel]``; they are therefore imported by their own names.
"""

from rota.observing.counters import COUNTERS, TIMINGS, Counters, Journal, Timing
from rota.observing.health import Finding, Thresholds, list_findings
from rota.observing.logs import JsonFormatter
from rota.observing.standing import Standing, take_standing
from rota.observing.tally import (
    DepthSample,
    DepthSampler,
    DurationTally,
    MinuteTally,
    Tally,
    read_tallies,
)

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
