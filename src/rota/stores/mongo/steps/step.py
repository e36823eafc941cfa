"""Writes to several documents that come about all or none, by a log that anybody can complete.

1. The step is declared, in a document of its own.
2. It lays claim to each document it will write and stages there what the document is to be. A
   document that is new is staged where no query looks.
3. One write commits the step. From then on it has come about, whoever dies.
4. What was staged is revealed, and the step is forgotten.

Before 3 nothing has happened, and whoever meets a claim can take it back; after 3 whoever meets one
completes it. Nobody else writes a document to which there is a claim.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from bson import ObjectId

from rota.errors import StoreError
from rota.stores.mongo import pipelines
from rota.stores.mongo.gateway import Gateway, Raw
from rota.stores.mongo.steps.names import DOCUMENTS, INTENTS, LOCK
from rota.stores.mongo.steps.recovery import end_step, finish, take_back

STAGED_AT_ONCE = 500
"""How many documents are staged by one write: it takes a small part of ``PATIENCE``."""


class StagedWrite(NamedTuple):
    """A document that is still at a version, None when it is not there, and what it is to be."""

    collection: str
    raw_id: str
    version: int | None
    after: Raw | None


async def write_together(gateway: Gateway, writes: Sequence[StagedWrite]) -> bool:
    """Write all; False, and nothing written, when one of the documents is not as it was.

    A single document needs no step.
    """
    if len(writes) == 1:
        collection, raw_id, version, after = writes[0]
        alone = pipelines.write_alone(raw_id, version, after)
        return (await gateway.write(collection, [alone])).done_count == 1
    step = Step(gateway)
    await step.begin()
    try:
        for collection in sorted({write.collection for write in writes}):
            here = [write for write in writes if write.collection == collection]
            if not await step.stage(collection, here):
                await step.call_off()
                return False
        return await step.commit()
    except BaseException:
        await step.give_up()
        raise


class Step:
    """One step on its way."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._id = str(ObjectId())  # grows with time, so that of two steps one is the older
        self._is_decided = False
        self._claimed: defaultdict[str, list[str]] = defaultdict(list)

    @property
    def holder(self) -> str | None:
        """Its id, once it has laid claim to anything."""
        return self._id if self._claimed else None

    async def begin(self) -> None:
        """Declare the step."""
        await self._gateway.write(INTENTS, [pipelines.declare(self._id)])

    async def stage(self, collection: str, writes: Sequence[StagedWrite]) -> bool:
        """Lay claim to documents of a collection; whether all of them were as expected.

        Where it takes more than one write, each time it is said that the step is alive.
        """
        for start in range(0, len(writes), STAGED_AT_ONCE):
            some = writes[start : start + STAGED_AT_ONCE]
            if await self._stage_some(collection, some) < len(some):
                return False
        return True

    async def _stage_some(self, collection: str, writes: Sequence[StagedWrite]) -> int:
        if self.holder is not None:
            await self._gateway.write(INTENTS, [pipelines.show_life(self._id)])
        operations = [
            pipelines.stage(self._id, write.raw_id, write.version, write.after) for write in writes
        ]
        written = await self._gateway.write(collection, operations)
        self._claimed[collection] += [write.raw_id for write in writes]
        return written.done_count

    async def find_staged(self, collection: str, raw_ids: Collection[str]) -> set[str]:
        """Those among these to which the step has laid claim."""
        found = await self._gateway.find(pipelines.by_ids(collection, raw_ids, [LOCK]))
        return {raw["_id"] for raw in found if raw.get(LOCK) == self._id}

    async def say(self, afters: Sequence[tuple[str, Raw | None]]) -> None:
        """What becomes of documents to which there is a claim."""
        asked = [pipelines.say_after(self._id, raw_id, after) for raw_id, after in afters]
        await self._gateway.write(DOCUMENTS, asked)

    async def commit(self) -> bool:
        """Let it come about; False, and nothing written, when somebody has called it off."""
        written = await self._gateway.write(INTENTS, [pipelines.commit(self._id)])
        self._is_decided = True
        if not written.matched_count:
            await take_back(self._gateway, self._id)
            return False
        await finish(self._gateway, self._id, self._claimed)
        return True

    async def call_off(self) -> None:
        """Nothing comes of it, unless it has come about already."""
        self._is_decided = True
        await end_step(self._gateway, self._id)

    async def give_up(self) -> None:
        """Call it off if that is still possible, after an error; whoever meets it does the rest."""
        if self._is_decided:
            return
        try:
            await self.call_off()
        except StoreError:
            return
