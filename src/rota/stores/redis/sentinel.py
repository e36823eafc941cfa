"""Connections to the primary that Sentinels name at the moment.

The driver has such connections too. But they trust a server that has become a replica since a
Sentinel named it, they report its refusal of a write as a lost connection, so that the outcome is
unknown, and they ask one Sentinel only, which may be cut off from the others.
"""

import asyncio
from asyncio import Lock, Task, get_running_loop
from collections.abc import Sequence
from typing import Any, NamedTuple

from redis.asyncio import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ReadOnlyError, RedisError

from rota.stores.redis.address import Place, Sentinels
from rota.stores.redis.translation import DRIVER_ERRORS, NoPrimaryError

FRESH_FOR = 2.0
"""Seconds for which an answer is used."""

SILENT_FOR = 10.0
"""Seconds after which Sentinels are asked again when none of them has answered."""

GLANCE_FOR = 1.0
"""Seconds to wait for the Sentinels to confirm a connection that is open."""

_INVALID_ANSWER = (KeyError, TypeError, ValueError)


class _Answer(NamedTuple):
    """What one Sentinel says; of two different answers, the one with the later epoch is right."""

    epoch: int
    primary: Place | None
    """None if the Sentinel considers the primary down and knows no other yet."""


class Lookout:
    """Asks the Sentinels for the primary, all at once, and remembers their last answer.

    A majority must answer: one that is cut off from the others may still name a primary that these
    have replaced. If fewer can be reached, their answers are used.
    """

    def __init__(self, sentinels: Sentinels, ask_for: float) -> None:
        self._sentinels = sentinels
        self._ask_for = ask_for
        self._asking = Lock()
        self._look_again_at = 0.0
        self.primary: Place | None = None

    async def find(self) -> Place:
        """The primary as of now. Raises NoPrimaryError."""
        self.primary = await ask_sentinels(self._sentinels, self._ask_for)
        self._rely_for(FRESH_FOR)
        return self.primary

    async def look_again(self) -> None:
        """Learn of a new primary, if the last answer is old.

        If the Sentinels name none, open connections stay in use: the server itself refuses writes
        if it must, and absent Sentinels must not stop the work.
        """
        if self._is_fresh():
            return
        async with self._asking:
            if self._is_fresh():  # another caller has asked meanwhile
                return
            relied_on_for = FRESH_FOR
            try:
                self.primary = await ask_sentinels(self._sentinels, GLANCE_FOR)
            except NoPrimaryError as error:
                relied_on_for = FRESH_FOR if error.is_answered else SILENT_FOR
            self._rely_for(relied_on_for)

    def _is_fresh(self) -> bool:
        return get_running_loop().time() < self._look_again_at

    def _rely_for(self, seconds: float) -> None:
        self._look_again_at = get_running_loop().time() + seconds


class PrimaryConnection(Connection):
    """Leads to the server that the Sentinels name, if that server says it is a primary too."""

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
            await self.send_command("INFO", "replication", check_health=False)
            said = await self.read_response()
            if b"role:master" not in bytes(said).split():
                raise ReadOnlyError(
                    f"{self.host}:{self.port} is a replica, and was named as the primary"
                )
        except RedisError:
            await self.disconnect()
            raise


class EncryptedPrimaryConnection(PrimaryConnection, SSLConnection):
    """The same with TLS."""


def following_options(sentinels: Sentinels, ask_for: float) -> dict[str, Any]:
    """Options of the driver that make its connections lead to the primary."""
    made = EncryptedPrimaryConnection if sentinels.is_encrypted else PrimaryConnection
    return {"connection_class": made, "lookout": Lookout(sentinels, ask_for)}


async def ask_sentinels(sentinels: Sentinels, seconds: float) -> Place:
    """The primary as of now; NoPrimaryError if no Sentinel names one in that time."""
    heard: list[_Answer | str] = []
    tasks = [asyncio.create_task(_ask_one(sentinels, place)) for place in sentinels.places]
    try:
        async with asyncio.timeout(seconds):
            await _hear_majority(tasks, heard)
    except TimeoutError:
        heard.append(f"{len(tasks) - len(heard)} did not answer in time")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return _choose(sentinels.service, heard)


async def _hear_majority(
    tasks: "Sequence[Task[_Answer | str]]", heard: list[_Answer | str]
) -> None:
    for each in asyncio.as_completed(tasks):
        heard.append(await each)
        if 2 * sum(isinstance(said, _Answer) for said in heard) > len(tasks):
            return


def _choose(service: str, heard: Sequence[_Answer | str]) -> Place:
    answers = [said for said in heard if isinstance(said, _Answer)]
    if not answers:
        complaints = ", ".join(str(complaint) for complaint in heard)
        raise NoPrimaryError(f"no Sentinel could be asked for {service}: {complaints}")
    latest = max(answer.epoch for answer in answers)
    named = [answer.primary for answer in answers if answer.epoch == latest and answer.primary]
    if not named:
        raise NoPrimaryError(
            f"the Sentinels take the primary of {service} for down, and have no other yet",
            is_answered=True,
        )
    return named[0]


async def _ask_one(sentinels: Sentinels, place: Place) -> _Answer | str:
    """What a Sentinel says, or what is wrong with it."""
    make = SSLConnection if sentinels.is_encrypted else Connection
    options: dict[str, Any] = {**place._asdict(), **sentinels.options}
    connection = make(**options, protocol=2, retry=Retry(NoBackoff(), 0))
    try:
        await connection.connect()  # type: ignore[no-untyped-call] # the driver's
        return await _read_answer(connection, sentinels.service)
    except DRIVER_ERRORS as error:
        is_said = isinstance(error, RedisError) and str(error)
        return f"{place.host}:{place.port} {f'said {error}' if is_said else 'cannot be reached'}"
    except _INVALID_ANSWER:  # not a Sentinel, or it forgot the service between two questions
        return f"{place.host}:{place.port} said nothing that could be understood"
    finally:
        await hang_up(connection)


async def hang_up(connection: Connection) -> None:
    """Close a connection at once: with TLS, each side would wait for the other's goodbye."""
    writer = connection._writer  # noqa: SLF001 - the driver has no other way
    if writer is not None:
        writer.transport.abort()
    await connection.disconnect(nowait=True)


async def _read_answer(connection: Any, service: str) -> _Answer:
    state = await _call(connection, "SENTINEL", "MASTER", service)
    facts = dict(zip(state[::2], state[1::2], strict=True))
    host, port = await _call(connection, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
    flags = set(facts[b"flags"].split(b","))
    is_old = (host, port) == (facts[b"ip"], facts[b"port"])  # else it names the successor already
    is_down = is_old and bool(flags & {b"s_down", b"o_down"})
    return _Answer(
        int(facts[b"config-epoch"]), None if is_down else Place(host.decode(), int(port))
    )


async def _call(connection: Any, *command: str) -> Any:
    await connection.send_command(*command)
    return await connection.read_response()
