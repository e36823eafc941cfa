"""What every part of one worker shares."""

from random import Random
from typing import NamedTuple, Protocol

from rota.clock.protocol import Clock
from rota.events import EventEmitter
from rota.stores.protocol import JobStore, TransactionalStore
from rota.worker.registry import Registry
from rota.worker.settings import WorkerSettings


class WorkerStore(JobStore, TransactionalStore, Protocol):
    """Jobs to run, and documents in which is remembered what handlers did once."""


class Surroundings(NamedTuple):
    """The collaborators a worker was given, and what it made of them.

    ``owner`` is whom the store sees; ``random`` is what all jitter is drawn from.
    """

    store: WorkerStore
    clock: Clock
    settings: WorkerSettings
    handlers: Registry
    journal: EventEmitter
    random: Random
    owner: str
