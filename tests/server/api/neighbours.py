"""Two tenants on one store, each with somebody who may do some or all things."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import NamedTuple

import httpx2
from tests.server.service import Visit, serve

from rota.auth.caller import EVERY_SCOPE, Caller, Scope
from rota.stores.opened import OpenStore


class Names:
    """A token is a tenant and the scopes that it has."""

    async def identify(self, token: str, now: datetime) -> Caller | None:  # noqa: ARG002 - the protocol
        tenant, _, scopes = token.partition("+")
        named = frozenset(Scope(each) for each in scopes.split("+")) if scopes else EVERY_SCOPE
        return Caller(tenant=tenant, scopes=named, who=f"{tenant} tester", token_id=token)

    async def recall(self, token_id: str, now: datetime) -> Caller | None:  # noqa: ARG002 - the protocol
        return None


class Neighbours(NamedTuple):
    """The service, and two who talk to it."""

    service: Visit
    ours: httpx2.AsyncClient
    theirs: httpx2.AsyncClient

    def with_only(self, *scopes: Scope) -> httpx2.AsyncClient:
        """Somebody of ours who has these scopes and no others."""
        return make_client(self.service, "ours", scopes)


def make_client(service: Visit, tenant: str, scopes: Iterable[Scope] = ()) -> httpx2.AsyncClient:
    token = "+".join([tenant, *(scope.value for scope in scopes)])
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(service.app),
        base_url="http://127.0.0.1",
        headers={"authorization": f"Bearer {token}"},
    )


@asynccontextmanager
async def two_tenants(store: OpenStore | None = None) -> AsyncIterator[Neighbours]:
    async with serve(store, Names()) as service:
        ours, theirs = make_client(service, "ours"), make_client(service, "theirs")
        async with ours, theirs:
            yield Neighbours(service, ours, theirs)
