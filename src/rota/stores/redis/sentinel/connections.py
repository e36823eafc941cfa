"""Connections that lead to the primary, whoever that is when they are made.

The driver has such connections too. Those take a server at its word that has become a replica since
a Sentinel named it, report its refusal of a write as a lost connection, after which nobody knows
whether it was carried out, and ask one Sentinel, which may be cut off from the others.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import redis
from redis.asyncio import Connection, SSLConnection
from redis.exceptions import ReadOnlyError, RedisError

from rota.stores.redis.sentinel.lookout import GLANCE_FOR, Lookout, ask_sentinels
from rota.stores.redis.sentinel.settings import Place, Sentinels
from rota.stores.redis.translation import NoPrimaryError

_QUESTION = ("INFO", "replication")
_PRIMARY = b"role:master"


class PrimaryConnection(Connection):
    """Leads to whom the Sentinels name, if that is a primary in its own eyes too."""

    def __init__(self, *, lookout: Lookout, **options: Any) -> None:
        super().__init__(**options)
        self._lookout = lookout

    async def connect_check_health(self, *arguments: Any, **options: Any) -> None:
        """Ask, and connect; raises one of DRIVER_ERRORS."""
        if self.is_connected:
            return
        self.host, self.port = await self._lookout.find()
        await super().connect_check_health(*arguments, **options)
        try:
            await self.send_command(*_QUESTION, check_health=False)
            _refuse_replica(await self.read_response(), Place(self.host, self.port))
        except RedisError:
            await self.disconnect()
            raise


class EncryptedPrimaryConnection(PrimaryConnection, SSLConnection):
    """The same with TLS."""


class PatientPrimaryConnection(redis.Connection):
    """The same for a thread that may wait, and which has the connection to itself."""

    def __init__(self, *, sentinels: Sentinels, ask_for: float, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call] # the driver's
        self._sentinels = sentinels
        self._ask_for = ask_for

    def connect_check_health(self, *arguments: Any, **options: Any) -> None:
        """Ask, and connect; raises one of DRIVER_ERRORS."""
        if self._sock:
            return
        self.host, self.port = _ask_apart(self._sentinels, self._ask_for)
        super().connect_check_health(*arguments, **options)
        try:
            self.send_command(*_QUESTION, check_health=False)  # type: ignore[no-untyped-call] # the driver's
            _refuse_replica(self.read_response(), Place(self.host, self.port))
        except RedisError:
            self.disconnect()  # type: ignore[no-untyped-call] # the driver's
            raise

    def check_health(self) -> None:
        """Before anything is sent: leave a server that is no longer the primary."""
        named = present = (self.host, self.port)
        with suppress(NoPrimaryError):
            named = _ask_apart(self._sentinels, GLANCE_FOR)
        if named != present:
            self.disconnect()  # type: ignore[no-untyped-call] # the driver's
            self.connect()  # type: ignore[no-untyped-call] # the driver's
        super().check_health()  # type: ignore[no-untyped-call] # the driver's


class EncryptedPatientPrimaryConnection(PatientPrimaryConnection, redis.SSLConnection):
    """The same with TLS."""


def following_options(sentinels: Sentinels, ask_for: float) -> dict[str, Any]:
    """What has an event loop's connections lead to the primary."""
    encrypted, plain = EncryptedPrimaryConnection, PrimaryConnection
    made = encrypted if sentinels.is_encrypted else plain
    return {"connection_class": made, "lookout": Lookout(sentinels, ask_for)}


def patient_following_options(sentinels: Sentinels, ask_for: float) -> dict[str, Any]:
    """What has a thread's connection lead to the primary."""
    encrypted, plain = EncryptedPatientPrimaryConnection, PatientPrimaryConnection
    made = encrypted if sentinels.is_encrypted else plain
    return {"connection_class": made, "sentinels": sentinels, "ask_for": ask_for}


def _ask_apart(sentinels: Sentinels, seconds: float) -> Place:
    """Ask from a thread of its own: the present one may have an event loop, which must not wait."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(_ask, sentinels, seconds).result()


def _ask(sentinels: Sentinels, seconds: float) -> Place:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(ask_sentinels(sentinels, seconds))
    finally:
        loop.close()  # asyncio.run would wait, however long, for a name that is being looked up


def _refuse_replica(said: Any, place: Place) -> None:
    if _PRIMARY not in bytes(said).split():
        raise ReadOnlyError(f"{place.host}:{place.port} is a replica, and was named as the primary")
