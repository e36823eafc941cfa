"""Clocks: read time, wait for it and, in tests, control it.

Only this package reads the machine's time.
"""

from rota.lazy import offer

_MODULES = {
    "Clock": "protocol",
    "CorrectedClock": "corrected",
    "LoopWatch": "loop_watch",
    "Stall": "loop_watch",
    "SystemClock": "system",
    "Timeout": "timeout",
    "VirtualClock": "virtual",
    "in_flight": "idle",
    "timeout_after": "timeout",
    "timeout_at": "timeout",
}
__all__ = [*_MODULES]  # noqa: PLE0604 - all of them are strings
__getattr__ = offer(__name__, _MODULES)
