"""What a handler is given, and what it may return."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from rota.errors import InvalidInputError
from rota.jobs import Job, Punctuality, assess_punctuality
from rota.policy.once import Action, Ledger, OnCrash, effect_key


class CancelReason(StrEnum):
    """Why an attempt was cut short."""

    LOST = "lease lost"
    """Another worker has the job, or somebody deleted it; nothing more is written here."""
    LAPSED = "lease ran out"
    """The store could not be told in time that the job is still running."""
    TIMED_OUT = "timed out"
    STOPPING = "worker stopping"


class Snooze(msgspec.Struct, frozen=True):
    """Returned by a handler that wants to be called again after so long; no attempt is spent."""

    for_: timedelta

    def __post_init__(self) -> None:
        for_: object = self.for_
        if not isinstance(for_, timedelta) or for_ < timedelta(0):
            raise InvalidInputError(
                f"for_ must be a timedelta of no less than no time, got {for_!r:.40}",
                {"field": "for_"},
            )


class Discard(msgspec.Struct, frozen=True):
    """Returned by a handler that knows that no attempt would ever succeed."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise InvalidInputError(
                f"reason must be a text, got {self.reason!r:.40}", {"field": "reason"}
            )


class Context:
    """One attempt at one job.

    ``now`` is the instant at which the attempt began. A handler that is cut short gets a
    ``CancelledError`` where it awaits, and ``cancel_reason`` says why; one that runs in a thread
    cannot be interrupted, and should look at ``cancel_reason`` now and then. Whatever a handler
    returns after it was cut short, the attempt did not succeed.
    """

    __slots__ = ("_ledger", "_punctuality", "cancel_reason", "job", "now")

    def __init__(self, job: Job, now: datetime, ledger: Ledger | None = None) -> None:
        self.job = job
        self.now = now
        self._ledger = ledger
        self.cancel_reason: CancelReason | None = None
        self._punctuality: Punctuality | None = None

    def __repr__(self) -> str:
        return f"<Context of job {self.job.id}, attempt {self.attempt}>"

    @property
    def tenant(self) -> str:
        return self.job.tenant

    @property
    def payload(self) -> Any:
        return self.job.payload

    @property
    def attempt(self) -> int:
        """The number of this attempt, counted from 1; those that were not spent do not count."""
        return self.job.attempt_count + 1

    @property
    def is_last_attempt(self) -> bool:
        """Whether the job is dead if this attempt fails."""
        return self.attempt >= self.job.retry_policy.max_attempts

    @property
    def token(self) -> int:
        """Greater than that of every earlier attempt: hand it on to fence writes elsewhere."""
        return self.job.last_token

    @property
    def is_lost(self) -> bool:
        """Whether the job is no longer this worker's to finish."""
        return self.cancel_reason is CancelReason.LOST

    @property
    def scheduled_for(self) -> datetime:
        """The occurrence that the job stands for, or else the instant it was due."""
        return self.punctuality.scheduled_for

    @property
    def late_for(self) -> timedelta:
        """How long after that the attempt began; never negative."""
        return self.punctuality.late_for

    @property
    def punctuality(self) -> Punctuality:
        """All that is known about being on time, missed occurrences among it."""
        if self._punctuality is None:
            self._punctuality = assess_punctuality(self.job, self.now)
        return self._punctuality

    @property
    def effect_key(self) -> str:
        """A key for ``once`` that is the same for every attempt at what this job stands for.

        It is made of the job's kind, its idempotency key or else its id, and its occurrence; a job
        that replaces a dead one has the dead one's.
        """
        return effect_key(self.job)

    async def once(
        self,
        key: str,
        action: Action[Any],
        *,
        on_crash: OnCrash = "at_least_once",
        wait_for: timedelta | None = None,
    ) -> Any:
        """Have the action's effect effectively once for this tenant and key, and its result.

        See ``rota.effects.Ledger.once``.
        """
        return await self._open_ledger().once(
            self.tenant, key, action, on_crash=on_crash, wait_for=wait_for
        )

    async def once_within(
        self,
        connection: Any,
        key: str,
        action: Action[Any],
        *,
        on_crash: OnCrash = "at_least_once",
    ) -> Any:
        """The same in a transaction of the handler's own: with its commit, or not at all.

        See ``rota.effects.Ledger.once_within``.
        """
        return await self._open_ledger().once_within(
            connection, self.tenant, key, action, on_crash=on_crash
        )

    def _open_ledger(self) -> Ledger:
        if self._ledger is None:
            raise InvalidInputError("this context was made without a ledger", {"field": "ledger"})
        return self._ledger
