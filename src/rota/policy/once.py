"""The once-ledger: makes an effect happen effectively once per tenant and key."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha256
from inspect import isawaitable
from secrets import token_hex
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import msgspec
from msgspec.structs import replace

from rota.clock.protocol import Clock, later
from rota.errors import (
    EffectInProgressError,
    EffectUnknownError,
    InvalidInputError,
    InvalidJobError,
    StaleVersionError,
    StoreError,
    StoreUnavailableError,
)
from rota.jobs import Job
from rota.jobs.fields import read_payload
from rota.stores.documents import find_document, remove_documents
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, TransactionalStore

EFFECTS = "effects"
"""The collection of the ledger."""

LONGEST_KEY = 1_000
RETRY_MARK = "#retry:"
"""The prefix of the dead job's id in the occurrence of the job that replaces it."""

_LONGEST_PLAIN = 255

Value = TypeVar("Value")
Action = Callable[[], Awaitable[Value] | Value]
"""Performs the effect."""

OnCrash = Literal["at_least_once", "at_most_once"]
"""What to do about an effect that started and may or may not have happened."""


class EffectState(Enum):
    """The state of an effect."""

    RUNNING = "running"
    DONE = "done"
    UNKNOWN = "unknown"


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One effect, stored under its tenant and key.

    While RUNNING it belongs to ``holder``, until ``until``. ``is_released``: it may begin again, as
    if it had never begun. The entry stays until it is pruned, because the version of a document
    that is removed starts again, and a slow caller would mistake a later claim for this one.
    """

    tenant: str
    key: str
    state: EffectState
    holder: str
    started_at: datetime
    until: datetime
    ended_at: datetime | None = None
    result: Any = None
    is_released: bool = False


class Verdict(Enum):
    """What the caller has to do."""

    BEGIN = "begin"
    WAIT = "wait"
    TAKE_RESULT = "take result"
    GIVE_UP = "give up"


def judge_effect(effect: Effect | None, now: datetime, on_crash: OnCrash) -> Verdict:
    """Decide whether the caller performs the effect."""
    if effect is None or effect.is_released:
        return Verdict.BEGIN
    if effect.state is EffectState.DONE:
        return Verdict.TAKE_RESULT
    if effect.state is EffectState.RUNNING and now < effect.until:
        return Verdict.WAIT
    return Verdict.BEGIN if on_crash == "at_least_once" else Verdict.GIVE_UP


def begin_effect(tenant: str, key: str, holder: str, now: datetime, lease_for: timedelta) -> Effect:
    return Effect(
        tenant=tenant,
        key=key,
        state=EffectState.RUNNING,
        holder=holder,
        started_at=now,
        until=now + lease_for,
    )


def end_effect(claim: Effect, now: datetime, *, is_released: bool) -> Effect:
    """The effect of a claim that ended without a result."""
    return replace(claim, state=EffectState.UNKNOWN, ended_at=now, is_released=is_released)


def effect_key(job: Job) -> str:
    """The key of the effect of a job.

    Jobs with the same idempotency key share it, and so does a job that replaces a dead one.
    """
    occurrence = (job.occurrence or "").partition(RETRY_MARK)[0]
    return f"{job.kind}:{job.idempotency_key or job.id}:{occurrence}"


def document_key(tenant: str, key: str) -> str:
    """The document key of an effect; readable where it fits. A tenant has no slash."""
    plain = f"{tenant}/{key}"
    if len(plain) <= _LONGEST_PLAIN:
        return plain
    return f"sha256:{sha256(plain.encode()).hexdigest()}"


def check_key(key: object) -> str:
    if isinstance(key, str) and 1 <= len(key) <= LONGEST_KEY and key.isprintable():
        return key
    raise InvalidInputError(
        f"key must be printable text of 1 to {LONGEST_KEY} characters", {"field": "key"}
    )


def check_choice(on_crash: str) -> None:
    if on_crash not in get_args(OnCrash):
        raise InvalidInputError(
            f"on_crash must be one of {', '.join(get_args(OnCrash))}", {"field": "on_crash"}
        )


def read_result(result: object) -> Any:
    """The result as JSON. Raises InvalidInputError when it cannot be stored."""
    try:
        return read_payload(result)
    except InvalidJobError as refusal:
        raise InvalidInputError(f"result {refusal.reason}", {"field": "result"}) from refusal


def encode_effect(effect: Effect) -> bytes:
    return msgspec.json.encode(effect)


def decode_effect(document: Document) -> Effect:
    try:
        return msgspec.json.decode(document.body, type=Effect)
    except msgspec.DecodeError as error:
        raise StoreError(
            f"Effect {document.key} cannot be read: {error}", {"key": document.key}
        ) from error


class _Entry(NamedTuple):
    """What the transaction knows about an effect, and its version."""

    effect: Effect
    version: int


class TransactionEntries:
    """The ledger's entries as the caller's transaction sees and writes them."""

    def __init__(self, store: TransactionalStore, clock: Clock, connection: Any) -> None:
        self._store = store
        self._clock = clock
        self._connection = connection

    async def once(self, tenant: str, key: str, action: Action[Any], on_crash: OnCrash) -> Any:
        """The result of the action, which is called unless the effect has happened."""
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
        """The effect, either done or claimed by the caller."""
        # Usually there is no entry. Writing first matters on SQLite: it waits for the write lock
        # for a transaction that starts by writing, but not for one that has read.
        document: Document | None = None
        while True:
            now = self._clock.now()
            if document is not None and (done := _find_done(document, now, on_crash)):
                return _Entry(done, document.version)
            # The claim expires at once: others see it only if the caller commits a failed action.
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
    """The effect if it is done, None if the caller performs it."""
    effect = decode_effect(document)
    verdict = judge_effect(effect, now, on_crash)
    if verdict is Verdict.WAIT:  # not with a transaction open, whose locks others may wait for
        raise EffectInProgressError(effect.tenant, effect.key, effect.until)
    if verdict is Verdict.GIVE_UP:
        raise EffectUnknownError(effect.tenant, effect.key, effect.started_at)
    return effect if verdict is Verdict.TAKE_RESULT else None


class LedgerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a claim lasts, and how often others check it.

    A claim is renewed while its action runs, after a third of its duration.
    """

    lease_for: timedelta = timedelta(minutes=1)
    look_every: timedelta = timedelta(seconds=1)


class Ledger:
    """Records which effects have happened, for all tenants of a store."""

    def __init__(
        self, store: TransactionalStore, clock: Clock, settings: LedgerSettings | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings or LedgerSettings()

    async def once(
        self,
        tenant: str,
        key: str,
        action: Action[Any],
        *,
        on_crash: OnCrash = "at_least_once",
        wait_for: timedelta | None = None,
    ) -> Any:
        """The result of the action, which is called unless the effect has happened.

        The result is stored as JSON of at most 64 KiB and returned to later callers. While another
        caller performs the effect, wait until it is done or its claim expires;
        EffectInProgressError after ``wait_for``. An effect that started and was interrupted by a
        crash or an exception is performed again or, with ``at_most_once``, never:
        EffectUnknownError.
        """
        check_choice(on_crash)
        claim = await self._claim(tenant, check_key(key), on_crash, wait_for)
        if claim.state is EffectState.DONE:
            return claim.result
        async with self._giving_up(claim, on_crash), self._renewing(claim):
            result = action()
            if isawaitable(result):
                result = await result
        return await self._finish(claim, result)

    async def once_within(
        self,
        connection: Any,
        tenant: str,
        key: str,
        action: Action[Any],
        *,
        on_crash: OnCrash = "at_least_once",
    ) -> Any:
        """As ``once``, for an action that only works in the caller's transaction.

        The caller begins the transaction on ``connection``, does the work there, and commits or
        rolls back. The commit writes the work and the entry together, so no crash separates them.
        Another transaction that wants the same effect waits for this one and, after a commit, gets
        its result. Exceptions of the action are raised: roll back. EffectInProgressError, without
        waiting, while another caller holds a claim by ``once``; ``on_crash`` applies to an expired
        claim. UnsupportedConnectionError where the store cannot join the transaction.
        """
        check_choice(on_crash)
        entries = TransactionEntries(self._store, self._clock, connection)
        return await entries.once(tenant, check_key(key), action, on_crash)

    async def find(self, tenant: str, key: str) -> Effect | None:
        """The stored effect."""
        document = await self._read(tenant, key)
        effect = None if document is None else decode_effect(document)
        return None if effect is None or effect.is_released else effect

    async def confirm(self, tenant: str, key: str, result: Any = None) -> None:
        """Record that the effect happened, with its result."""
        holder = token_hex(8)
        claim = begin_effect(tenant, check_key(key), holder, self._clock.now(), timedelta(0))
        await self._finish(claim, result)

    async def forget(self, tenant: str, key: str) -> bool:
        """Record that the effect did not happen or may happen again. False if it is unknown."""
        document = await self._read(tenant, key)
        if document is None or _is_released(document):
            return False
        now = self._clock.now()
        released = end_effect(
            begin_effect(tenant, key, token_hex(8), now, timedelta(0)), now, is_released=True
        )
        return await self._write(tenant, key, document.version, released) is not None

    async def prune(self, ended_before: datetime) -> int:
        """Remove effects that were done, or became unknown, before then. Returns how many."""
        return await prune_effects(self._store, lambda _: ended_before)

    async def _claim(
        self, tenant: str, key: str, on_crash: OnCrash, wait_for: timedelta | None
    ) -> Effect:
        """The effect, either done or claimed by the caller."""
        give_way_at = None if wait_for is None else later(self._clock.now(), wait_for)
        while True:
            document = await self._read(tenant, key)
            effect = None if document is None else decode_effect(document)
            now = self._clock.now()
            verdict = judge_effect(effect, now, on_crash)
            if effect is not None and verdict is Verdict.TAKE_RESULT:
                return effect
            if effect is not None and verdict is Verdict.GIVE_UP:
                raise EffectUnknownError(tenant, key, effect.started_at)
            if effect is not None and verdict is Verdict.WAIT:
                await self._wait(effect, give_way_at)
                continue
            claim = begin_effect(tenant, key, token_hex(8), now, self._settings.lease_for)
            expected = None if document is None else document.version
            if await self._write(tenant, key, expected, claim) is not None:
                return claim

    async def _wait(self, effect: Effect, give_way_at: datetime | None) -> None:
        now = self._clock.now()
        look_at = min(effect.until, later(now, self._settings.look_every))
        if give_way_at is not None:
            if now >= give_way_at:
                raise EffectInProgressError(effect.tenant, effect.key, effect.until)
            look_at = min(look_at, give_way_at)
        await self._clock.sleep_until(look_at)

    @asynccontextmanager
    async def _renewing(self, claim: Effect) -> AsyncIterator[None]:
        """Renew the claim while the block runs."""
        renewal = asyncio.get_running_loop().create_task(self._renew(claim))
        try:
            yield
        finally:
            renewal.cancel()
            await asyncio.wait([renewal])

    async def _renew(self, claim: Effect) -> None:
        while True:
            await self._clock.sleep(self._settings.lease_for / 3)
            with suppress(StoreError):  # there is time for another try
                until = later(self._clock.now(), self._settings.lease_for)
                await self._rewrite(claim, replace(claim, until=until))

    @asynccontextmanager
    async def _giving_up(self, claim: Effect, on_crash: OnCrash) -> AsyncIterator[None]:
        """Release the claim when the block fails, so that the next attempt need not wait."""
        is_done = False
        try:
            yield
            is_done = True
        finally:
            if not is_done:
                with suppress(StoreError):  # then the claim expires
                    is_released = on_crash == "at_least_once"
                    ended = end_effect(claim, self._clock.now(), is_released=is_released)
                    await self._rewrite(claim, ended)

    async def _rewrite(self, claim: Effect, effect: Effect) -> None:
        """Write the outcome of a claim while its holder still owns it."""
        while True:
            document = await self._read(claim.tenant, claim.key)
            if document is None or decode_effect(document).holder != claim.holder:
                return
            if await self._write(claim.tenant, claim.key, document.version, effect) is not None:
                return

    async def _finish(self, claim: Effect, result: Any) -> Any:
        """Record that the effect happened, even if another holder claimed it.

        Returns the result to use.
        """
        error: InvalidInputError | None = None
        kept: Any = None
        try:
            kept = read_result(result)
        except InvalidInputError as refusal:
            error = refusal
        done = replace(claim, state=EffectState.DONE, ended_at=self._clock.now(), result=kept)
        first = await self._record(done)
        if error is not None:
            raise error
        return first.result

    async def _record(self, done: Effect) -> Effect:
        """Write the entry. Wait for an unavailable store for as long as a claim lasts.

        Giving up earlier would repeat the effect.
        """
        give_up_at = later(self._clock.now(), self._settings.lease_for)
        while True:
            try:
                return await self._write_done(done)
            except StoreUnavailableError:
                if self._clock.now() >= give_up_at:
                    raise
            await self._clock.sleep(self._settings.look_every)

    async def _write_done(self, done: Effect) -> Effect:
        while True:
            document = await self._read(done.tenant, done.key)
            present = None if document is None else decode_effect(document)
            if present is not None and present.state is EffectState.DONE:
                return present
            expected = None if document is None else document.version
            if await self._write(done.tenant, done.key, expected, done) is not None:
                return done

    async def _read(self, tenant: str, key: str) -> Document | None:
        return await find_document(self._store, EFFECTS, document_key(tenant, key))

    async def _write(
        self, tenant: str, key: str, expected: int | None, effect: Effect
    ) -> int | None:
        place = document_key(tenant, key)
        write = DocumentWrite(EFFECTS, place, expected, encode_effect(effect))
        (version,) = await self._store.write_each([write])
        return version


async def prune_effects(
    store: DocumentStore, ended_before: Callable[[str], datetime | None]
) -> int:
    """Remove effects that ended before the instant of their tenant, if it has one; how many."""
    return await remove_documents(
        store, EFFECTS, lambda document: _has_ended(decode_effect(document), ended_before)
    )


def _is_released(document: Document) -> bool:
    """False for an entry that cannot be read, so that it can be forgotten."""
    try:
        return decode_effect(document).is_released
    except StoreError:
        return False


def _has_ended(effect: Effect, ended_before: Callable[[str], datetime | None]) -> bool:
    before = ended_before(effect.tenant)
    return before is not None and effect.ended_at is not None and effect.ended_at < before
