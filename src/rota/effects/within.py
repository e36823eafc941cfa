"""An effect that is nothing but work in a database, recorded in the transaction that does it.

Between such an effect and its entry nothing can come: they are committed together or not at all.
The entry is claimed first, in the same transaction, so that of two attempts the later one waits for
the end of the other, where the database lets it, instead of doing work that cannot be committed.
"""

from datetime import datetime, timedelta
from inspect import isawaitable
from secrets import token_hex
from typing import Any, NamedTuple

from msgspec.structs import replace

from rota.clock.protocol import Clock
from rota.effects.record import (
    EFFECTS,
    Action,
    Effect,
    EffectState,
    OnCrash,
    Verdict,
    begin_effect,
    decode_effect,
    document_key,
    encode_effect,
    judge_effect,
    read_result,
)
from rota.errors import EffectInProgressError, EffectUnknownError, StaleVersionError
from rota.stores.protocol import Document, DocumentWrite, TransactionalStore


class _Entry(NamedTuple):
    """What the transaction knows about an effect, and at which version."""

    effect: Effect
    version: int


class TransactionEntries:
    """The ledger's entries as a transaction of the caller's sees and writes them."""

    def __init__(self, store: TransactionalStore, clock: Clock, connection: Any) -> None:
        self._store = store
        self._clock = clock
        self._connection = connection

    async def once(self, tenant: str, key: str, action: Action[Any], on_crash: OnCrash) -> Any:
        """The result of the action, which is called unless the effect has happened already."""
        entry = await self._claim(tenant, key, on_crash)
        if entry.effect.state is EffectState.DONE:
            return entry.effect.result
        result = action()
        if isawaitable(result):
            result = await result
        done = replace(
            entry.effect,
            state=EffectState.DONE,
            ended_at=self._clock.now(),
            result=read_result(result),
        )
        await self._write(done, entry.version)
        return done.result

    async def _claim(self, tenant: str, key: str, on_crash: OnCrash) -> _Entry:
        """The effect, either done or the caller's to bring about."""
        # Most often there is none; and a transaction that begins by writing is one for whose turn
        # SQLite can wait, which it refuses to do for one that has read.
        document: Document | None = None
        while True:
            now = self._clock.now()
            if document is not None and (done := _find_done(document, now, on_crash)):
                return _Entry(done, document.version)
            # It lasts for no time: others meet it only if the caller commits what has failed.
            claim = begin_effect(tenant, key, token_hex(8), now, timedelta(0))
            try:
                version = await self._write(claim, None if document is None else document.version)
            except StaleVersionError:
                document = await self._read(claim)
            else:
                return _Entry(claim, version)

    async def _read(self, effect: Effect) -> Document | None:
        place = document_key(effect.tenant, effect.key)
        return (await self._store.read_within(self._connection, EFFECTS, [place])).get(place)

    async def _write(self, effect: Effect, expected: int | None) -> int:
        place = document_key(effect.tenant, effect.key)
        write = DocumentWrite(EFFECTS, place, expected, encode_effect(effect))
        await self._store.write_within(self._connection, [write])
        return write.next_version


def _find_done(document: Document, now: datetime, on_crash: OnCrash) -> Effect | None:
    """The effect if it is done, None if it is the caller's to bring about."""
    effect = decode_effect(document)
    verdict = judge_effect(effect, now, on_crash)
    if verdict is Verdict.WAIT:  # not with a transaction open, for whose locks others may wait
        raise EffectInProgressError(effect.tenant, effect.key, effect.until)
    if verdict is Verdict.GIVE_UP:
        raise EffectUnknownError(effect.tenant, effect.key, effect.started_at)
    return effect if verdict is Verdict.TAKE_RESULT else None
