"""Several writes of documents in one step."""

from collections.abc import Collection, Sequence
from typing import TypeAlias

from rota.stores.mongo.documents import queries
from rota.stores.mongo.gateway import Gateway, Raw
from rota.stores.mongo.steps.names import DOCUMENTS, VERSION
from rota.stores.mongo.steps.recovery import clear_for_writing
from rota.stores.mongo.steps.step import StagedWrite, Step
from rota.stores.protocol import DocumentWrite

CHUNK_LENGTH = 250
"""How many documents are read or staged at a time."""

Numbered: TypeAlias = list[tuple[int, DocumentWrite]]
"""Writes of one document, with their places among all."""


class Desk:
    """Carries out writes, each document by itself, and stages what becomes of it."""

    def __init__(self, gateway: Gateway, step: Step) -> None:
        self._gateway = gateway
        self._step = step
        self._staged: dict[str, int | None] = {}

    async def apply_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """The new version for each write, None where it is stale."""
        by_id: dict[str, Numbered] = {}
        for place, write in enumerate(writes):
            raw_id = queries.id_of(write.collection, write.key)
            by_id.setdefault(raw_id, []).append((place, write))
        answers: dict[int, int | None] = {}
        again = {each: by_id.pop(each) for each in self._staged.keys() & by_id.keys()}
        await self._say_more(again, answers)
        while by_id:
            await self._stage(by_id, answers)
        return [answers[place] for place in range(len(writes))]

    async def _stage(self, by_id: dict[str, Numbered], answers: dict[int, int | None]) -> None:
        """Lay claim to the documents; those that somebody else has written meanwhile are left."""
        kept = await self._read_free(by_id)
        staged: list[StagedWrite] = []
        for raw_id, writes in by_id.items():
            raw = kept.get(raw_id)
            before = None if raw is None else {VERSION: raw[VERSION], "body": raw["body"]}
            after = _carry_out(before, writes, answers)
            version = None if before is None else before[VERSION]
            staged.append(StagedWrite(DOCUMENTS, raw_id, version, after))
        done: Collection[str] = list(by_id)
        if not await self._step.stage(DOCUMENTS, staged):
            done = await self._step.find_staged(DOCUMENTS, by_id.keys())
        for write in staged:
            if write.raw_id in done:
                self._staged[write.raw_id] = None if write.after is None else write.after[VERSION]
                del by_id[write.raw_id]

    async def _say_more(self, by_id: dict[str, Numbered], answers: dict[int, int | None]) -> None:
        """Writes of documents to which the step has laid claim before: nobody else can have."""
        afters: list[tuple[str, Raw | None]] = []
        for raw_id, writes in by_id.items():
            version = self._staged[raw_id]
            before = None if version is None else {VERSION: version}
            after = _carry_out(before, writes, answers)
            if after is not before:
                afters.append((raw_id, after))
                self._staged[raw_id] = None if after is None else after[VERSION]
        if afters:
            await self._step.say(afters)

    async def _read_free(self, raw_ids: Collection[str]) -> dict[str, Raw]:
        while True:
            found = await self._gateway.find(queries.by_ids(list(raw_ids)))
            if await clear_for_writing(self._gateway, found, self._step.holder):
                return {raw["_id"]: raw for raw in found}


def _carry_out(before: Raw | None, writes: Numbered, answers: dict[int, int | None]) -> Raw | None:
    """The document after those of the writes that are current."""
    after = before
    for place, write in writes:
        if (None if after is None else after[VERSION]) != write.expected:
            answers[place] = None
            continue
        after = queries.content(write)
        answers[place] = write.next_version
    return after
