"""Steps of several processes that need the same documents: who waits, and who goes on."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from tests.unit.stores.mongo.mortal import ImpatientGateway

from rota.stores.mongo import pipelines
from rota.stores.mongo.documents.desk import Desk
from rota.stores.mongo.documents.verbs import read, write_each
from rota.stores.mongo.gateway import AsyncGateway, Raw
from rota.stores.mongo.steps.names import DOCUMENTS, INTENTS
from rota.stores.mongo.steps.recovery import PATIENCE, Sweeper
from rota.stores.mongo.steps.step import StagedWrite, Step
from rota.stores.protocol import DocumentWrite


class WatchedGateway(ImpatientGateway):
    """Lets no time pass: says how much would have, and lets others do something meanwhile."""

    def __init__(self, database: "AsyncDatabase[Raw]") -> None:
        super().__init__(database, "test")
        self.waited = 0.0
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def pause(self, seconds: float) -> None:
        self.waited += seconds
        if self.meanwhile is not None:
            await self.meanwhile()


@pytest.fixture
async def gateway(mongo_url: str) -> AsyncIterator[WatchedGateway]:
    async with AsyncMongoClient[Raw](mongo_url) as client:
        yield WatchedGateway(client.get_default_database())


def a_write(key: str, body: bytes = b"new", expected: int | None = None) -> DocumentWrite:
    return DocumentWrite("tasks", key, expected, body)


async def begin(gateway: AsyncGateway, *keys: str) -> tuple[Step, Desk]:
    """A step that has laid claim to some documents."""
    step = Step(gateway)
    await step.begin()
    desk = Desk(gateway, step)
    await desk.apply_each([a_write(key, b"theirs") for key in keys])
    return step, desk


async def show_life(gateway: AsyncGateway, step: Step) -> None:
    assert step.holder is not None
    await gateway.write(INTENTS, [pipelines.show_life(step.holder)])


async def test_a_step_is_waited_for_until_it_ends(gateway: WatchedGateway) -> None:
    step, _ = await begin(gateway, "x", "y")

    async def end_at_last() -> None:
        if gateway.waited > PATIENCE * 0.9:
            gateway.meanwhile = None
            assert await step.commit()

    gateway.meanwhile = end_at_last
    assert await write_each(gateway, [a_write("x"), a_write("z")]) == [None, 1]
    kept = await read(gateway, "tasks", ["x", "y", "z"])
    assert {key: document.body for key, document in kept.items()} == {
        "x": b"theirs",
        "y": b"theirs",
        "z": b"new",
    }


async def test_a_step_that_shows_no_life_is_called_off(gateway: WatchedGateway) -> None:
    step, _ = await begin(gateway, "x", "y")
    assert await write_each(gateway, [a_write("x"), a_write("z")]) == [1, 1]
    assert PATIENCE <= gateway.waited < 1.1 * PATIENCE
    assert not await step.commit()
    assert await read(gateway, "tasks", ["y"]) == {}


async def test_a_step_that_shows_life_is_waited_for_longer(gateway: WatchedGateway) -> None:
    step, _ = await begin(gateway, "x")

    async def go_on() -> None:
        if gateway.waited < 3 * PATIENCE:
            await show_life(gateway, step)
        else:
            gateway.meanwhile = None
            assert await step.commit()

    gateway.meanwhile = go_on
    assert await write_each(gateway, [a_write("x")]) == [None]


async def test_a_step_in_parts_shows_life_with_each(gateway: WatchedGateway) -> None:
    step, desk = await begin(gateway, "x")
    for key in "yz":
        await desk.apply_each([a_write(key)])
    (intent,) = await gateway.find(pipelines.list_intents(10))
    assert intent["beat"] == 2
    await step.call_off()


async def test_a_sweep_leaves_alone_what_has_shown_life_since_the_last(
    gateway: WatchedGateway,
) -> None:
    step, _ = await begin(gateway, "x")
    sweeper = Sweeper(gateway)
    for _ in range(3):
        await sweeper.sweep()
        await show_life(gateway, step)
    assert gateway.waited == 0
    assert await step.commit()


async def test_a_sweep_calls_off_what_shows_no_life(gateway: WatchedGateway) -> None:
    step, _ = await begin(gateway, "x")
    sweeper = Sweeper(gateway)
    await sweeper.sweep()
    assert gateway.waited == 0
    await sweeper.sweep()
    assert gateway.waited >= PATIENCE
    assert not await step.commit()


async def test_a_sweep_waits_once_however_many_processes_have_died(
    gateway: WatchedGateway,
) -> None:
    steps = [(await begin(gateway, key))[0] for key in "wxyz"]
    sweeper = Sweeper(gateway)
    await sweeper.sweep()

    async def go_on() -> None:
        gateway.meanwhile = None
        await show_life(gateway, steps[2])

    gateway.meanwhile = go_on
    await sweeper.sweep()
    assert PATIENCE <= gateway.waited < 1.1 * PATIENCE
    assert [await step.commit() for step in steps] == [False, False, True, False]


async def test_a_step_of_many_documents_shows_life_on_its_way(
    gateway: WatchedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.stores.mongo.steps.step.STAGED_AT_ONCE", 2)
    step = Step(gateway)
    await step.begin()
    raws = [StagedWrite(DOCUMENTS, key, None, {"version": 1, "body": b""}) for key in "vwxyz"]
    assert await step.stage(DOCUMENTS, raws)
    (intent,) = await gateway.find(pipelines.list_intents(10))
    assert intent["beat"] == 2
    assert await step.commit()
    found = await gateway.find(pipelines.by_ids(DOCUMENTS, list("vwxyz")))
    assert found == [{"_id": key, "version": 1, "body": b""} for key in "vwxyz"]


async def test_of_two_that_need_each_others_documents_the_older_goes_on(
    gateway: WatchedGateway,
) -> None:
    older, of_older = await begin(gateway, "x")
    younger, _ = await begin(gateway, "y")
    assert await of_older.apply_each([a_write("y")]) == [1]
    assert gateway.waited == 0
    assert await older.commit()
    assert not await younger.commit()
    assert (await read(gateway, "tasks", ["y"]))["y"].body == b"new"


async def test_of_two_that_need_each_others_documents_the_younger_waits(
    gateway: WatchedGateway,
) -> None:
    older, _ = await begin(gateway, "x")
    younger, of_younger = await begin(gateway, "y")

    async def end() -> None:
        gateway.meanwhile = None
        assert await older.commit()

    gateway.meanwhile = end
    assert await of_younger.apply_each([a_write("x", expected=1)]) == [2]
    assert gateway.waited > 0
    assert await younger.commit()
    assert (await read(gateway, "tasks", ["x"]))["x"].body == b"new"
