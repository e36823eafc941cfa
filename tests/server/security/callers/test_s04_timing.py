"""S4: a token that is not good is refused in one way, whatever is wrong with it."""

from collections.abc import Sequence
from datetime import timedelta
from hmac import compare_digest
from random import Random
from typing import Any

import pytest
from tests.server.security.conftest import NOW, Stage

from rota.auth.sessions import SessionBook
from rota.auth.tokens import make_token
from rota.stores.protocol import Document


async def bad_tokens(stage: Stage) -> dict[str, str]:
    revoked = await stage.book.issue("ours", ["read"], "revoked")
    await stage.book.revoke(revoked.id)
    expired = await stage.book.issue("ours", ["read"], "x", expires_at=NOW + timedelta(seconds=1))
    await stage.clock.advance(timedelta(seconds=1))
    return {
        "unknown": make_token(Random(99).getrandbits).reveal(),
        "revoked": revoked.secret.reveal(),
        "expired": expired.secret.reveal(),
    }


async def test_unknown_revoked_expired_and_mistyped_are_answered_alike(stage: Stage) -> None:
    tokens = await bad_tokens(stage)
    tokens |= {"mistyped": tokens["unknown"][:-1] + "!", "short": "rota_", "other": "ghp_x"}
    answers = set()
    for token in tokens.values():
        answer = await (await stage.connect(token)).get("/api/v1/jobs")
        headers = {**answer.headers, "x-request-id": ""}
        answers.add((answer.status_code, answer.content, tuple(sorted(headers.items()))))
    ((status, _, _),) = answers
    assert status == 401


async def test_each_is_looked_up_once_and_compared_in_constant_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same steps in the same order: a hash, one look-up by it, one comparison of digests."""
    steps: list[str] = []
    read = stage.store.read

    def noted_compare(one: Any, other: Any) -> bool:
        assert len(one) == len(other) == 64
        steps.append("compare")
        return compare_digest(one, other)

    async def noted_read(collection: str, keys: Sequence[str]) -> dict[str, Document]:
        steps.append(f"read {collection}")
        return await read(collection, keys)

    tokens = await bad_tokens(stage)
    tokens["good"] = await stage.issue()
    monkeypatch.setattr("rota.auth.tokens.compare_digest", noted_compare)
    monkeypatch.setattr(stage.store, "read", noted_read)
    for token in tokens.values():
        steps.clear()
        await stage.book.identify(token, stage.clock.now())
        assert steps == ["read tokens", "compare"]


async def test_sessions_are_compared_in_constant_time_too(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[str, str]] = []

    def noted(one: Any, other: Any) -> bool:
        compared.append((one, other))
        return compare_digest(one, other)

    monkeypatch.setattr("rota.auth.sessions.compare_digest", noted)
    book = SessionBook(stage.store, stage.clock, stage.book)
    opened = await book.open(await stage.issue())
    assert opened is not None
    assert await book.identify(opened.secret.reveal(), NOW) is not None
    assert await book.identify("unknown", NOW) is None
    assert [len(one) for one, _ in compared] == [64, 64]
