"""Limits as documents, and back."""

from datetime import timedelta

import pytest

from rota.policy.gate_settings import Damage
from rota.policy.limits import Limit, Rate, decode_limit, encode_limit, key_of

RATE = Rate(count=5, per=timedelta(minutes=1), burst=2)


@pytest.mark.parametrize(
    ("limit", "key"),
    [
        (Limit(running=3), "all"),
        (Limit(tenant="a.b", running=0, rate=RATE), "tenant/a.b"),
        (Limit(queue="mail", ageing=timedelta(hours=1)), "queue/mail"),
        (Limit(tenant="a", queue="mail", rate=RATE), "tenant/a/queue/mail"),
    ],
)
def test_a_limit_comes_back_from_its_document(limit: Limit, key: str) -> None:
    assert key_of(limit.tenant, limit.queue) == key
    assert decode_limit(key, encode_limit(limit)) == limit


def test_a_body_can_be_read_by_people() -> None:
    body = encode_limit(Limit(queue="mail", running=3, rate=RATE))
    assert body == b'{"running":3,"rate":{"count":5,"per":"PT60S","burst":2}}'


@pytest.mark.parametrize(
    ("key", "body"),
    [
        ("all", b"not JSON"),
        ("all", b"{}"),
        ("all", b'{"running":-1}'),
        ("all", b'{"running":"3"}'),
        ("all", b'{"rate":{"count":0,"per":"PT60S"}}'),
        ("all", b"\xff"),
        ("nobody/a", b'{"running":1}'),
        ("queue/a b", b'{"running":1}'),
        ("tenant/a", b'{"ageing":"PT60S"}'),
    ],
)
def test_an_invalid_limit_counts_as_damage(key: str, body: bytes) -> None:
    damage = decode_limit(key, body)
    assert isinstance(damage, Damage)
    assert (damage.key, bool(damage.reason)) == (key, True)
