"""When two jobs are one and the same."""

import pytest
from msgspec.structs import replace

from rota.errors import DuplicateJobError
from rota.stores.kernel.identity import Identity, canonical_payload, check_duplicate, identity_of
from rota.testing import a_job


def test_only_a_job_with_a_key_has_an_identity() -> None:
    assert identity_of(a_job(occurrence="1")) is None
    expected = Identity("default", "a job", "key", None)
    assert identity_of(a_job(idempotency_key="key")) == expected


def test_payloads_with_keys_in_another_order_are_equal() -> None:
    one = a_job(payload={"b": {"y": 1, "x": [2]}, "a": "é"})
    other = a_job(payload={"a": "é", "b": {"x": [2], "y": 1}})
    assert canonical_payload(one) == canonical_payload(other)
    assert canonical_payload(one) == '{"a":"é","b":{"x":[2],"y":1}}'.encode()


def test_the_refusal_names_the_existing_job_and_what_differs() -> None:
    existing = a_job(idempotency_key="key", payload=1)
    check_duplicate(a_job(idempotency_key="key", payload=1), existing)
    with pytest.raises(DuplicateJobError, match="with another payload") as refusal:
        check_duplicate(a_job(idempotency_key="key", payload=2), existing)
    assert refusal.value.details == {"jobId": existing.id}
    with pytest.raises(DuplicateJobError, match="its id is taken by another job"):
        check_duplicate(replace(existing, tenant="other"), existing)
    with pytest.raises(DuplicateJobError, match="with another idempotency key"):
        check_duplicate(replace(existing, occurrence="1"), existing)
