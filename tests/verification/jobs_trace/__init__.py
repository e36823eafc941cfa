"""Write down what happens to jobs, outside their store, and have it judged.

Wrap a store in ``RecordingStore`` and handlers in ``recorded``; both share a ``Scribe``, whose sink
may be a ``JobHistory``, a file that outlives the process. In the end ``take_snapshot`` reads the
store, and ``check_jobs`` says which promises were broken.
"""

from tests.verification.jobs_trace.attempts import recorded
from tests.verification.jobs_trace.checker import check_jobs, check_liveness
from tests.verification.jobs_trace.file import JobHistory, merge_histories, read_history
from tests.verification.jobs_trace.recording import RecordingStore, Scribe
from tests.verification.jobs_trace.records import JobEntry
from tests.verification.jobs_trace.report import INVARIANTS, Breach, Invariant, JobsVerdict
from tests.verification.jobs_trace.snapshot import Snapshot, take_snapshot

__all__ = [
    "INVARIANTS",
    "Breach",
    "Invariant",
    "JobEntry",
    "JobHistory",
    "JobsVerdict",
    "RecordingStore",
    "Scribe",
    "Snapshot",
    "check_jobs",
    "check_liveness",
    "merge_histories",
    "read_history",
    "recorded",
    "take_snapshot",
]
