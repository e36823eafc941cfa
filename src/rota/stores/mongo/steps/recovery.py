"""What becomes of the claims that steps have on documents, whoever meets them.

A step that is committed is carried out to its end, by anybody. One that nobody knows any more was
called off, and what it staged is taken back. One that is still under way may be waited for, or
called off: its own process then begins anew.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from rota.stores.mongo import pipelines
from rota.stores.mongo.gateway import Gateway, Operation, Raw
from rota.stores.mongo.steps.names import COMMITTED, INTENTS, KEPT_IN, LOCK, PENDING

PATIENCE = 40
"""How often a step of somebody else is asked for its end before it is called off."""

BATCH_LENGTH = 250
"""How many documents are revealed or taken back by one write."""

Claimed: TypeAlias = Mapping[str, Sequence[str]]
"""The ids of documents to which a step lays claim, by collection."""

SWEEP_LENGTH = 100
"""How many steps and claims one sweep looks at."""


def claims_on(documents: Iterable[Raw]) -> set[str]:
    """The steps that have laid claim to these."""
    return {document[LOCK] for document in documents if LOCK in document}


async def clear_for_reading(gateway: Gateway, documents: Iterable[Raw]) -> bool:
    """Whether the documents are what they show; if not, they are cleared, and to be read again.

    A claim of a step that is still under way changes nothing about them.
    """
    claims = claims_on(documents)
    if not claims:
        return True
    states = await _read_states(gateway, claims)
    settled = {each for each in claims if states.get(each) != PENDING}
    for step_id in settled:
        await _settle(gateway, step_id, states.get(step_id))
    return not settled


async def clear_for_writing(gateway: Gateway, documents: Iterable[Raw]) -> bool:
    """Whether nobody lays claim to the documents; if not, they are cleared, and to be read again.

    A step that is still under way is given a while to end.
    """
    claims = claims_on(documents)
    for step_id in claims:
        state = await _wait_for_end(gateway, step_id)
        if state == PENDING:
            await end_step(gateway, step_id)
        else:
            await _settle(gateway, step_id, state)
    return not claims


async def end_step(gateway: Gateway, step_id: str) -> None:
    """Call a step off; one that has come about meanwhile is carried out instead."""
    await gateway.write(INTENTS, [pipelines.call_off(step_id)])
    states = await _read_states(gateway, [step_id])
    await _settle(gateway, step_id, states.get(step_id))


async def finish(gateway: Gateway, step_id: str, known: Claimed | None = None) -> None:
    """Carry out a step that is committed; ``known`` are all its claims, where they are known."""
    await _go_through(gateway, step_id, pipelines.reveal, known)
    await gateway.write(INTENTS, [pipelines.forget(step_id)])


async def take_back(gateway: Gateway, step_id: str) -> None:
    """Undo what was staged by a step that can never come about."""
    await _go_through(gateway, step_id, pipelines.undo, None)


async def _go_through(
    gateway: Gateway,
    step_id: str,
    make_operations: Callable[[str, Sequence[str]], list[Operation]],
    known: Claimed | None,
) -> None:
    """Do the same to all documents of a step, a bounded number at a time."""
    for collection in KEPT_IN:
        if known is not None:
            ids = known.get(collection, ())
            for start in range(0, len(ids), BATCH_LENGTH):
                batch = ids[start : start + BATCH_LENGTH]
                await gateway.write(collection, make_operations(step_id, batch))
            continue
        query = pipelines.list_claimed(collection, step_id, BATCH_LENGTH)
        while found := await gateway.find(query):
            ids = [raw["_id"] for raw in found]
            await gateway.write(collection, make_operations(step_id, ids))


class Sweeper:
    """Completes what processes that are gone have left behind.

    A step that is committed is finished when it is met. One under way is called off when it is met
    for the second time: between two sweeps any living process would have come to an end with it.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._met_before: frozenset[str] = frozenset()

    async def sweep(self) -> None:
        """Look at what is under way, and at claims of steps that nobody knows."""
        known = await self._gateway.find(pipelines.list_intents(SWEEP_LENGTH))
        under_way = {each["_id"] for each in known if each["state"] == PENDING}
        for intent in known:
            if intent["state"] == COMMITTED:
                await finish(self._gateway, intent["_id"])
        for step_id in under_way & self._met_before:
            await end_step(self._gateway, step_id)
        self._met_before = frozenset(under_way)
        await self._clear_claims()

    async def _clear_claims(self) -> None:
        for collection in KEPT_IN:
            claimed = await self._gateway.find(pipelines.list_claims(collection, SWEEP_LENGTH))
            await clear_for_reading(self._gateway, claimed)


async def _wait_for_end(gateway: Gateway, step_id: str) -> str | None:
    state: str | None = PENDING
    for _ in range(PATIENCE):
        state = (await _read_states(gateway, [step_id])).get(step_id)
        if state != PENDING:
            break
    return state


async def _settle(gateway: Gateway, step_id: str, state: str | None) -> None:
    if state == COMMITTED:
        await finish(gateway, step_id)
    else:
        await take_back(gateway, step_id)


async def _read_states(gateway: Gateway, step_ids: Collection[str]) -> dict[str, str]:
    found = await gateway.find(pipelines.find_intents(step_ids))
    return {intent["_id"]: intent["state"] for intent in found}
