"""What becomes of the claims that steps have on documents, whoever meets them.

A step that is committed is carried out to its end, by anybody. One that nobody knows any more was
called off, and what it staged is taken back. One that is still under way may be waited for, or
called off: its own process then begins anew.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from rota.stores.mongo import pipelines
from rota.stores.mongo.gateway import Gateway, Operation, Raw
from rota.stores.mongo.steps.names import BEAT, COMMITTED, INTENTS, KEPT_IN, LOCK, PENDING

PATIENCE = 2.0
"""For how many seconds a step of somebody else may show no life before it is called off.

Until it is committed a step is one write or two, each of which a majority has to acknowledge, or it
shows life between them. Were it called off sooner than these take, two processes could call each
other off for ever.
"""

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.002, 0.064
"""Between two looks at a step, in seconds; each is twice the one before."""

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


async def clear_for_writing(
    gateway: Gateway, documents: Iterable[Raw], holder: str | None = None
) -> bool:
    """Whether nobody lays claim to the documents; if not, they are cleared, and to be read again.

    A step that is still under way is given a while to end, unless ``holder`` asks, a step that has
    claims of its own, and is the older: two that waited for each other would both wait in vain.
    """
    claims = claims_on(documents)
    for step_id in sorted(claims):
        if holder is not None and holder < step_id:
            await end_step(gateway, step_id)
        else:
            await _wait_and_settle(gateway, step_id)
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

    A step that is committed is finished when it is met. One under way that has shown no life since
    it was met the last time is waited for, and then called off.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._met_before: Mapping[str, int] = {}

    async def sweep(self) -> None:
        """Look at what is under way, and at claims of steps that nobody knows."""
        known = await self._gateway.find(pipelines.list_intents(SWEEP_LENGTH))
        for intent in known:
            if intent["state"] == COMMITTED:
                await finish(self._gateway, intent["_id"])
        under_way = _beats_of(known)
        await self._call_off(dict(under_way.items() & self._met_before.items()))
        self._met_before = under_way
        await self._clear_claims()

    async def _call_off(self, silent: Mapping[str, int]) -> None:
        """Call steps off that show no life for so long; however many, they are waited for once."""
        waited = 0.0
        while silent and waited < PATIENCE:
            await self._gateway.pause(_LONGEST_PAUSE)
            waited += _LONGEST_PAUSE
            found = await self._gateway.find(pipelines.find_intents(silent))
            silent = dict(silent.items() & _beats_of(found).items())
        for step_id in sorted(silent):
            await end_step(self._gateway, step_id)

    async def _clear_claims(self) -> None:
        for collection in KEPT_IN:
            claimed = await self._gateway.find(pipelines.list_claims(collection, SWEEP_LENGTH))
            await clear_for_reading(self._gateway, claimed)


async def _wait_and_settle(gateway: Gateway, step_id: str) -> None:
    """Give a step the time to end, and see to it that nothing is left of it."""
    if await _lasts_on(gateway, step_id):
        await end_step(gateway, step_id)
        return
    states = await _read_states(gateway, [step_id])
    await _settle(gateway, step_id, states.get(step_id))


async def _lasts_on(gateway: Gateway, step_id: str) -> bool:
    """Whether a step is still under way after it has shown no life for so long."""
    beat, waited, pause = None, 0.0, _SHORTEST_PAUSE
    while found := await gateway.find(pipelines.find_intents([step_id])):
        if found[0]["state"] != PENDING:
            return False
        if _beat_of(found[0]) != beat:
            beat, waited = _beat_of(found[0]), 0.0
        if waited >= PATIENCE:
            return True
        await gateway.pause(pause)
        waited += pause
        pause = min(2 * pause, _LONGEST_PAUSE)
    return False


def _beats_of(intents: Iterable[Raw]) -> dict[str, int]:
    """How often each step that is under way has shown life."""
    return {each["_id"]: _beat_of(each) for each in intents if each["state"] == PENDING}


def _beat_of(intent: Raw) -> int:
    beat: int = intent.get(BEAT, 0)
    return beat


async def _settle(gateway: Gateway, step_id: str, state: str | None) -> None:
    if state == COMMITTED:
        await finish(gateway, step_id)
    else:
        await take_back(gateway, step_id)


async def _read_states(gateway: Gateway, step_ids: Collection[str]) -> dict[str, str]:
    found = await gateway.find(pipelines.find_intents(step_ids))
    return {intent["_id"]: intent["state"] for intent in found}
