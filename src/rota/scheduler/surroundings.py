"""What every part of one scheduler shares."""

from datetime import tzinfo
from typing import NamedTuple

from rota.clock.protocol import Clock
from rota.events import EventEmitter
from rota.scheduler.policy import SchedulerPolicy, SchedulerSettings
from rota.stores.protocol import DocumentStore


class Surroundings(NamedTuple):
    """The collaborators a scheduler was given, and the journal it writes."""

    store: DocumentStore
    clock: Clock
    zone: tzinfo
    policy: SchedulerPolicy
    settings: SchedulerSettings
    journal: EventEmitter
