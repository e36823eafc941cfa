"""Parked workers: idle ones that are leased a new job by the script that inserts it.

An idle worker leaves its request with the server, by a subscription: that writes nothing. The name
of its channel is the request. ``add.lua`` reads such names, chooses a worker that can run the job,
leases it with what it inserts, in one write, and publishes it on that channel. The server flushes
its log before it sends anything, so a job has reached the disk when its worker hears of it.

The server sends a message at most once. So the lease ends at an instant that no other lease of the
worker ends at: jobs that were given and did not arrive are found by it.
"""

from asyncio import Event
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from rota.errors import DamagedJobError
from rota.jobs import Job, format_instant
from rota.stores.protocol import LeaseRequest
from rota.stores.redis.database import Database
from rota.stores.redis.line import Line
from rota.stores.redis.rows import decode_job, encode_names
from rota.stores.wakeups import wait_for

MOST_PARKED = 16
"""How many workers are parked with a store; each insert of a single job reads the names of all."""

LONGEST_NAME = 4_096
"""A worker whose kinds have longer names altogether is not parked."""

_ID_LENGTH, _SIZE_LENGTH = 36, 8
_encode = msgspec.json.Encoder().encode

Receive = Callable[[Job | None], None]


class Parking:
    """The parked workers of a process, all on one connection."""

    def __init__(self, database: Database, sign: str) -> None:
        """``sign`` is a channel without messages: who listens there is parked."""
        self._database = database
        self._sign = sign
        self._line: Line | None = None
        self._parked: dict[bytes, Parked] = {}

    def open(self, line: Line) -> None:
        """Park workers on this connection."""
        self._line = line

    def close(self) -> None:
        """The connection is lost, and with it perhaps a job for each parked worker."""
        self._line = None
        for channel in list(self._parked):
            self._parked.pop(channel).end(is_lost=True)

    async def park(self, request: LeaseRequest, now: datetime, receive: Receive) -> "Parked | None":
        """Park a worker; None if that cannot be."""
        name, line = _name(request, now), self._line
        if line is None or len(name) > LONGEST_NAME:
            return None
        # NUMSUB would count connections; and Valkey 9.1 does not always count right.
        names = await self._database.call("PUBSUB", "CHANNELS", f"{self._sign}\\[*")
        if line is not self._line or len(names) >= MOST_PARKED:
            return None
        channel = self._sign.encode() + name
        self._parked[channel] = parked = Parked(receive, lambda: self._leave(channel))
        line.tell("SUBSCRIBE", channel, self._sign)
        return parked

    def hear(self, said: Any) -> None:
        """Pass on a job, or that a worker is parked no longer."""
        if isinstance(said, Exception):  # this user may not: no worker is parked any more
            self.close()
            return
        kind, channel, content = (*said, b"")[:3]  # a pong is shorter
        if kind == b"message" and (parked := self._parked.get(channel)):
            parked.take(content)
        elif kind == b"unsubscribe" and (parked := self._parked.pop(channel, None)):
            parked.end(is_lost=False)

    def _leave(self, channel: bytes) -> None:
        if self._line is not None and channel in self._parked:
            is_last = all(each.is_leaving for each in self._parked.values())
            self._line.tell("UNSUBSCRIBE", channel, *[self._sign] * is_last)


class Parked:
    """A parked worker. Jobs can still arrive after it has left, until the server knows that."""

    def __init__(self, receive: Receive, leave: Callable[[], None]) -> None:
        self._receive = receive
        self._leave = leave
        self._ended = Event()
        self.is_leaving = False

    @property
    def is_over(self) -> bool:
        return self._ended.is_set()

    def leave(self) -> None:
        """Be parked no longer."""
        if not self.is_leaving:
            self.is_leaving = True
            self._leave()

    async def left(self, seconds: float) -> None:
        """Return when no more jobs will come; after that time jobs count as lost."""
        self.leave()
        if not await wait_for(self._ended, seconds):
            self.end(is_lost=True)

    def take(self, content: bytes) -> None:
        if self.is_over:  # what comes now counts as lost
            return
        at = _ID_LENGTH + _SIZE_LENGTH
        job_id, size = content[:_ID_LENGTH].decode(), int(content[_ID_LENGTH:at])
        try:
            self._receive(decode_job(job_id, content[at : at + size], content[at + size :]))
        except DamagedJobError:  # a search for it must not find jobs on their way
            self.leave()
            self.end(is_lost=True)

    def end(self, *, is_lost: bool) -> None:
        if not self._ended.is_set():
            self._ended.set()
            if is_lost:
                self._receive(None)


def _name(request: LeaseRequest, now: datetime) -> bytes:
    """The request as ``add.lua`` reads it. A job that comes late has half of the lease left."""
    names = map(_text, (request.queues, request.tenants, request.labels, request.kinds))
    until, closes = now + request.lease_for, now + request.lease_for / 2
    instants = map(format_instant, (until, closes))
    return _encode([request.worker, *instants, request.limit, *names])


def _text(names: Any) -> str:
    encoded = encode_names(names)
    return encoded if isinstance(encoded, str) else encoded.decode()
