"""Time that flowed, as against what the clock showed.

*Flow* is the time a trace has lasted so far without what the clock skipped: it stands still while
the host sleeps and never goes back. Whether something is due is a matter of what the clock shows;
whether something is late is a matter of flow.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta

from tests.verification.trace.actions import ClockJumped, Crashed, Entry, StorageFault
from tests.verification.trace.editions import Tolerance

Flow = timedelta

_NONE = timedelta()


class Timeline:
    """The flow of one trace: when the clock reached an instant, and until when lateness is excused.

    An *epoch* is a stretch in which the clock ran on without a jump.
    """

    def __init__(self, trace: Sequence[Entry], tolerance: Tolerance) -> None:
        self._epochs: list[tuple[Flow, datetime]] = []
        self._ends: list[datetime] = []
        self._excuses: list[tuple[Flow, Flow]] = []
        self._longest_excuse = _NONE
        self.flows: list[Flow] = []
        """The flow at each position."""
        self._read(trace, tolerance)

    @property
    def end(self) -> Flow:
        """The flow at the last position."""
        return self.flows[-1] if self.flows else _NONE

    def reached(self, instant: datetime, start: Flow) -> Flow | None:
        """The first flow from ``start`` on at which the clock shows ``instant`` or later."""
        first = max(0, bisect_right(self._epochs, start, key=lambda epoch: epoch[0]) - 1)
        for (flow, shown), shown_last in zip(self._epochs[first:], self._ends[first:], strict=True):
            if shown_last < instant:
                continue
            found = max(start, flow + max(_NONE, instant - shown))
            if shown + (found - flow) <= shown_last:
                return found
        return None

    def deadline(self, owed_from: Flow, allowance: timedelta) -> Flow:
        """Until when what is owed since ``owed_from`` is not late; excused time is not counted."""
        counted_to, left = owed_from, allowance
        earliest = owed_from - self._longest_excuse
        first = bisect_left(self._excuses, earliest, key=lambda excuse: excuse[0])
        for start, end in self._excuses[first:]:
            if start > counted_to + left:
                break
            if end > counted_to:
                left -= max(_NONE, start - counted_to)
                counted_to = end
        return counted_to + left

    def position_at(self, flow: Flow) -> int:
        """The last position whose flow is not beyond this one."""
        return max(0, bisect_right(self.flows, flow) - 1)

    def instant_at(self, flow: Flow) -> datetime:
        """What the clock showed then; of a jump, what it showed afterwards."""
        index = max(0, bisect_right(self._epochs, flow, key=lambda epoch: epoch[0]) - 1)
        start, shown = self._epochs[index]
        return shown + (flow - start)

    def _read(self, trace: Sequence[Entry], tolerance: Tolerance) -> None:
        flow = _NONE
        shown = None
        for entry in trace:
            if shown is None or entry.at < shown:
                self._begin_epoch(flow, shown, entry.at)
            else:
                flow += entry.at - shown
            shown = entry.at
            self.flows.append(flow)
            if isinstance(entry, ClockJumped):
                self._begin_epoch(flow, shown, entry.to)
                shown = entry.to
            self._excuse(entry, flow, tolerance)
        if shown is not None:
            self._ends.append(shown)

    def _begin_epoch(self, flow: Flow, shown_before: datetime | None, shown: datetime) -> None:
        if shown_before is not None:
            self._ends.append(shown_before)
        self._epochs.append((flow, shown))

    def _excuse(self, entry: Entry, flow: Flow, tolerance: Tolerance) -> None:
        match entry:
            case ClockJumped():
                lasted = tolerance.after_jump
            case StorageFault(lasted=delay):
                lasted = delay + tolerance.after_fault
            case Crashed():
                lasted = tolerance.after_crash
            case _:
                return
        self._excuses.append((flow, flow + lasted))
        self._longest_excuse = max(self._longest_excuse, lasted)
