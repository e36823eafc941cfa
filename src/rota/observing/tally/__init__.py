"""How many jobs ended how in each minute, per tenant, kept in the store for a day or two.

A ``Tally`` beside each worker adds to what is kept; ``read_tallies`` reads it, wherever.
"""

from rota.observing.tally.durations import BOUNDS_MS, DurationTally
from rota.observing.tally.keeping import Tally
from rota.observing.tally.minute import DepthSample, MinuteTally
from rota.observing.tally.pages import RETENTION, read_tallies
from rota.observing.tally.sampling import DepthSampler

__all__ = [
    "BOUNDS_MS",
    "RETENTION",
    "DepthSample",
    "DepthSampler",
    "DurationTally",
    "MinuteTally",
    "Tally",
    "read_tallies",
]
