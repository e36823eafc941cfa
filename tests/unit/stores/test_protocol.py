"""What may be asked of a store of jobs."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from rota.errors import InvalidInputError
from rota.stores.protocol import Cap, LeaseRequest, expiry_key, is_chosen
from rota.testing import a_job


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("worker", ""),
        ("worker", "a\0b"),
        ("limit", 0),
        ("limit", -1),
        ("limit", True),
        ("limit", 1.5),
        ("lease_for", timedelta(0)),
        ("lease_for", timedelta(seconds=-1)),
        ("queues", "mail"),
        ("tenants", "acme"),
        ("ageing", {"mail": timedelta(0)}),
    ],
)
def test_a_request_without_sense_names_its_field(field: str, value: Any) -> None:
    fields = {"worker": "w", "limit": 1, "lease_for": timedelta(minutes=1), field: value}
    with pytest.raises(InvalidInputError) as refusal:
        LeaseRequest(**fields)
    assert refusal.value.details["field"] == field


def test_a_request_is_limited_by_what_it_asks_for() -> None:
    plain = LeaseRequest(worker="w", limit=1, lease_for=timedelta(minutes=1))
    assert not plain.is_limited
    assert replace(plain, caps=(Cap("a"),)).is_limited
    assert replace(plain, ageing={"mail": timedelta(hours=1)}).is_limited


def test_no_choice_is_all_and_an_empty_one_is_none() -> None:
    assert is_chosen("a", None)
    assert is_chosen("a", {"a", "b"})
    assert not is_chosen("a", ())


def test_a_job_without_a_lease_has_no_place_among_the_expired() -> None:
    with pytest.raises(InvalidInputError, match="after must be a job"):
        expiry_key(a_job())
