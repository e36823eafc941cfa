"""Lease keepers on an event loop of their own."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import pytest

from rota.errors import StoreUnavailableError
from rota.stores.keeper import Result, keeper_on
from rota.stores.protocol import HeldLease
from rota.testing.job_store_fixture import NOW

HELD = [HeldLease("00000000-0000-4000-8000-000000000001", 1)]


class Server:
    """Fails the calls for which it has an error."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.is_closed = False
        self.call_count = 0

    async def run(self, work: Callable[["Server"], Awaitable[Result]]) -> Result:
        self.call_count += 1
        if self.errors:
            raise StoreUnavailableError("gone") from self.errors.pop(0)
        return await work(self)

    async def close(self) -> None:
        self.is_closed = True


async def extend(_server: Server, held: Sequence[HeldLease], _until: datetime) -> list[bool]:
    return [True] * len(held)


async def test_a_keeper_extends_even_in_a_thread_with_a_running_loop() -> None:
    server = Server()
    keeper = keeper_on(server, extend)
    assert [keeper.extend(HELD, NOW, NOW) for _ in range(2)] == [[True], [True]]
    keeper.close()
    keeper.close()
    assert server.is_closed


def test_a_keeper_that_was_never_used_has_nothing_to_close() -> None:
    server = Server()
    keeper_on(server, extend).close()
    assert not server.is_closed


def test_a_call_on_a_lost_connection_is_made_again_once() -> None:
    server = Server(ConnectionError(), ConnectionError(), ConnectionError())
    keeper = keeper_on(server, extend)
    with pytest.raises(StoreUnavailableError):
        keeper.extend(HELD, NOW, NOW)
    assert server.call_count == 2
    assert keeper.extend(HELD, NOW, NOW) == [True]
    keeper.close()


def test_a_silent_server_is_not_asked_again() -> None:
    server = Server(TimeoutError())
    keeper = keeper_on(server, extend)
    with pytest.raises(StoreUnavailableError):
        keeper.extend(HELD, NOW, NOW)
    assert server.call_count == 1
    keeper.close()
