"""The pages about tokens: for administrators, with who issued whom."""

import httpx2
import pytest
from tests.server.pages.conftest import START, Knock, sign_in

from rota.auth.tokens import IssuedToken, Token, TokenBook
from rota.stores.opened import OpenStore
from rota.testing import VirtualClock


class Issued:
    """Two tokens on the store: the second was issued by the first."""

    def __init__(self, book: TokenBook, first: IssuedToken, second: IssuedToken) -> None:
        self._book = book
        self.first = first.token
        self.second = second.token

    async def read(self) -> tuple[Token, Token]:
        return await self._book.find(self.first.id), await self._book.find(self.second.id)


@pytest.fixture
async def issued(store: OpenStore) -> Issued:
    book = TokenBook(store, VirtualClock(START))
    first = await book.issue("default", ["admin"], "ada")
    second = book.draft("default", ["worker"], "mailer", queues=["mail"], issued_by=first.id)
    await book.keep(second)
    return Issued(book, first, second)


async def test_the_list_shows_rights_and_issuers(pages: httpx2.AsyncClient, issued: Issued) -> None:
    text = (await pages.get("/admin/tokens")).text
    assert f'href="/admin/tokens/{issued.first.id}">ada</a>' in text
    assert "only mail" in text
    assert "by ada" in text
    assert '<a href="/admin/tokens" aria-current="page">Tokens</a>' in text


async def test_revoking_offers_to_revoke_the_descendants(
    pages: httpx2.AsyncClient, issued: Issued
) -> None:
    here = f"/admin/tokens/{issued.first.id}"
    text = (await pages.get(here)).text
    assert "Also revoke 1 valid token that descends from it" in text
    answer = await pages.post(f"{here}/revoke", data={"descendants": "yes", "why": "leaked"})
    assert answer.headers["location"] == "/admin/tokens?done=revoked&count=2"
    first, second = await issued.read()
    assert first.revoked_at == second.revoked_at == START
    assert "leaked" in (await pages.get("/admin/audit")).text


async def test_descendants_stay_valid_if_they_are_not_chosen(
    pages: httpx2.AsyncClient, issued: Issued
) -> None:
    await pages.post(f"/admin/tokens/{issued.first.id}/revoke", data={"why": ""})
    first, second = await issued.read()
    assert (first.revoked_at, second.revoked_at) == (START, None)


async def test_tokens_are_shown_to_administrators_only(knock: Knock, issued: Issued) -> None:
    client = knock("read+write+operate")
    await sign_in(client, "read+write+operate")
    for path in ("/admin/tokens", f"/admin/tokens/{issued.first.id}"):
        assert (await client.get(path)).status_code == 403
    answer = await client.post(f"/admin/tokens/{issued.first.id}/revoke", data={"why": ""})
    assert answer.status_code == 403
    assert 'href="/admin/tokens"' not in (await client.get("/admin/jobs")).text


async def test_an_unknown_token_is_not_found(pages: httpx2.AsyncClient) -> None:
    assert (await pages.get("/admin/tokens/none")).status_code == 404
