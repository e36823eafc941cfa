"""Who the primary is, by what the Sentinels say."""

import asyncio
from asyncio import Lock, Task, get_running_loop
from collections.abc import Sequence
from typing import Any, NamedTuple

from redis.asyncio import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from rota.stores.redis.sentinel.settings import Place, Sentinels
from rota.stores.redis.translation import DRIVER_ERRORS, NoPrimaryError

FRESH_FOR = 2.0
"""Seconds for which an answer is relied on."""

SILENT_FOR = 10.0
"""Seconds for which Sentinels of whom none has answered are not asked again without need."""

GLANCE_FOR = 1.0
"""Seconds that whoever has a connection waits for the Sentinels to confirm it."""

_NO_ANSWER = (KeyError, TypeError, ValueError)


class _Answer(NamedTuple):
    """What one Sentinel says; of two that differ, the one of the later epoch is right."""

    epoch: int
    primary: Place | None
    """None when it takes the primary for down, and has no other yet."""


class Lookout:
    """Asks the Sentinels, all at once, whenever it matters; remembers what they last said.

    Most of them must have answered, for one that is cut off from the others may still name a
    primary which these have replaced. When fewer can be reached, those have to do.
    """

    def __init__(self, sentinels: Sentinels, ask_for: float) -> None:
        self._sentinels = sentinels
        self._ask_for = ask_for
        self._asking = Lock()
        self._look_again_at = 0.0
        self.primary: Place | None = None

    async def find(self) -> Place:
        """The primary, as of now; NoPrimaryError when nobody names one."""
        self.primary = await ask_sentinels(self._sentinels, self._ask_for)
        self._rely_for(FRESH_FOR)
        return self.primary

    async def look_again(self) -> None:
        """Learn of another primary, if it is a while since anybody asked.

        When nobody names one, whoever has a connection may as well go on: it is the server who
        decides whether he can be written to, and Sentinels who are away must not stop the work.
        """
        if self._is_fresh():
            return
        async with self._asking:  # whoever waited here need not ask again
            if self._is_fresh():
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


async def ask_sentinels(sentinels: Sentinels, seconds: float) -> Place:
    """The primary, as of now; NoPrimaryError when nobody names one within so many seconds."""
    heard: list[_Answer | str] = []
    tasks = [asyncio.create_task(_ask_one(sentinels, place)) for place in sentinels.places]
    try:
        async with asyncio.timeout(seconds):
            await _hear_most(tasks, heard)
    except TimeoutError:
        heard.append(f"{len(tasks) - len(heard)} did not answer in time")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return _choose(sentinels.service, heard)


async def _hear_most(tasks: "Sequence[Task[_Answer | str]]", heard: list[_Answer | str]) -> None:
    """Take in what is said, until most have answered or all are through."""
    for each in asyncio.as_completed(tasks):
        heard.append(await each)
        if 2 * sum(isinstance(said, _Answer) for said in heard) > len(tasks):
            return


def _choose(service: str, heard: Sequence[_Answer | str]) -> Place:
    answers = [said for said in heard if isinstance(said, _Answer)]
    if not answers:
        told = ", ".join(str(complaint) for complaint in heard)
        raise NoPrimaryError(f"no Sentinel could be asked for {service}: {told}")
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
        return f"{place.host}:{place.port} {_tell(error)}"
    except _NO_ANSWER:  # it is no Sentinel, or was told to forget the service between two questions
        return f"{place.host}:{place.port} said nothing that could be understood"
    finally:
        await _hang_up(connection)


async def _hang_up(connection: Connection) -> None:
    """Close a connection at once: with TLS, either side would wait for the other to say goodbye."""
    writer = connection._writer  # noqa: SLF001 - the driver knows no other way
    if writer is not None:
        writer.transport.abort()
    await connection.disconnect(nowait=True)


async def _read_answer(connection: Any, service: str) -> _Answer:
    state = await _call(connection, "SENTINEL", "MASTER", service)
    facts = dict(zip(state[::2], state[1::2], strict=True))
    host, port = await _call(connection, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
    flags = set(facts[b"flags"].split(b","))
    is_old = (host, port) == (facts[b"ip"], facts[b"port"])  # else its successor is already named
    is_down = is_old and bool(flags & {b"s_down", b"o_down"})
    return _Answer(
        int(facts[b"config-epoch"]), None if is_down else Place(host.decode(), int(port))
    )


async def _call(connection: Any, *command: str) -> Any:
    await connection.send_command(*command)
    return await connection.read_response()


def _tell(error: Exception) -> str:
    return f"said {error}" if isinstance(error, RedisError) and str(error) else "cannot be reached"
