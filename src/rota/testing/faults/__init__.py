"""A store that fails, comes late, or does as it was told and fails all the same.

Wrap any store in ``FaultyStore`` and say which calls are to suffer what: by number with
``scripted_faults``, by verb with ``faults_on``, by chance with ``seeded_faults``, or with a
function of your own. The same faults fall on the same calls each time.
"""

from rota.testing.faults.plan import (
    Failure,
    Fault,
    Faults,
    StoreCall,
    faults_on,
    scripted_faults,
    seeded_faults,
)
from rota.testing.faults.store import FaultyStore

__all__ = [
    "Failure",
    "Fault",
    "Faults",
    "FaultyStore",
    "StoreCall",
    "faults_on",
    "scripted_faults",
    "seeded_faults",
]
