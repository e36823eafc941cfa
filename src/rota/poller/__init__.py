"""Specification 4: lock the next document, process it, reschedule it."""

from rota.lazy import offer

_MODULES = {
    "JobUpdate": "protocol",
    "PollableStore": "protocol",
    "PolledJob": "protocol",
    "PolledJobs": "jobs",
    "Poller": "poller",
    "PollerOptions": "settings",
    "next_start": "advance",
}
__all__ = [*_MODULES]  # noqa: PLE0604 - all of them are strings
__getattr__ = offer(__name__, _MODULES)
