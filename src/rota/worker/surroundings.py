"""What every part of one worker shares."""

import os
import secrets
import socket
from random import Random
from typing import NamedTuple, Protocol

from rota.clock.protocol import Clock
from rota.events import EventEmitter
from rota.stores.jobs import JobStore
from rota.stores.protocol import TransactionalStore
from rota.worker.registry import Registry
from rota.worker.settings import WorkerSettings

_LONGEST_HOST = 60


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


def make_owner() -> str:
    """Whose leases these are: host and process for people, and chance, as both are used again."""
    host = "".join(it for it in socket.gethostname() if it.isprintable())[:_LONGEST_HOST]
    return f"{host or 'host'}:{os.getpid()}:{secrets.token_hex(4)}"
