"""Clocks: read time, wait for it and, in tests, control it.

Only this package reads the machine's time.
"""

from rota.lazy import offer

_MODULES = {
    "Clock": "protocol",
    "CorrectedClock": "corrected",
    "LoopWatch": "loop",
    "Stall": "loop",
    "SystemClock": "system",
    "Timeout": "system",
    "VirtualClock": "virtual",
    "in_flight": "loop",
    "timeout_after": "system",
    "timeout_at": "system",
}
__all__ = [*_MODULES]  # noqa: PLE0604 - all of them are strings
__getattr__ = offer(__name__, _MODULES)
