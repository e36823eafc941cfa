"""Callers: their tenant, their scopes, and how a service identifies them."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from rota.errors import ForbiddenQueueError, ForbiddenTenantError
from rota.jobs.record import DEFAULT_TENANT


class Scope(StrEnum):
    """What a caller may do.

    ``READ`` reads; ``WORKER`` leases and settles jobs; ``WRITE`` creates, changes and runs jobs,
    and includes ``WORKER``; ``OPERATE`` acts on jobs of others: cancel, retry, pause, gates;
    ``ADMIN`` is for the whole installation: tokens, limits, metrics. It includes all others.
    """

    READ = "read"
    WORKER = "worker"
    WRITE = "write"
    OPERATE = "operate"
    ADMIN = "admin"


EVERY_SCOPE = frozenset(Scope)

INCLUDES = {Scope.ADMIN: EVERY_SCOPE, Scope.WRITE: frozenset({Scope.WRITE, Scope.WORKER})}
"""The scopes that a scope includes. Every other scope includes itself alone."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """An identified caller. ``who`` is its name in the audit log.

    Rate limits count by ``token_id``; it is None for a caller that the host service identified. A
    caller with ``queues`` may use only requests about jobs of these queues.
    """

    tenant: str = DEFAULT_TENANT
    scopes: frozenset[Scope] = EVERY_SCOPE
    who: str = "host"
    token_id: str | None = None
    queues: frozenset[str] | None = None

    def may(self, scope: Scope) -> bool:
        """Whether one of the caller's scopes is this one or includes it."""
        return any(scope in INCLUDES.get(each, (each,)) for each in self.scopes)

    @property
    def runs_installation(self) -> bool:
        """Whether the caller may see all tenants: an admin of the default tenant."""
        return self.tenant == DEFAULT_TENANT and self.may(Scope.ADMIN)

    def check_installation(self) -> None:
        """Refuse a caller that may not see other tenants."""
        if not self.runs_installation:
            raise ForbiddenTenantError(DEFAULT_TENANT)

    def check_queues(self, queues: Iterable[str]) -> None:
        """Refuse queues that are not the caller's. ForbiddenQueueError names the first."""
        for queue in queues:
            if self.queues is not None and queue not in self.queues:
                raise ForbiddenQueueError(self.queues, queue)


class Auth(Protocol):
    """Identifies callers by token. ``TokenBook`` does; a host service may bring its own."""

    async def identify(self, token: str, now: datetime) -> Caller | None:
        """The holder of this token; None when it is not valid, for any reason."""
        ...

    async def recall(self, token_id: str, now: datetime) -> Caller | None:
        """The holder of the token with this id; None when it is no longer valid.

        A session of the pages calls this for every request and ends when it returns None. To allow
        no sessions, always return None.
        """
        ...
