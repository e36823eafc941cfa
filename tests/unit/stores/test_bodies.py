"""What is kept of a job beside the columns of a table."""

import msgspec
import pytest

from rota.jobs import RetryPolicy
from rota.stores.rows import BodyCodec
from rota.testing.builders import a_job

COLUMNS = frozenset(type(a_job()).__struct_fields__) - {"name", "payload", "retry_policy", "trace"}
BODIES = BodyCodec(COLUMNS)


def test_default_values_take_no_room_even_if_they_were_given() -> None:
    assert BODIES.encode(a_job(name="a")) == b'{"name":"a"}'
    assert BODIES.encode(a_job(name="a", retry_policy=RetryPolicy())) == b'{"name":"a"}'
    around = a_job(name="a", payload=1, retry_policy=RetryPolicy(), trace="00-1")
    assert BODIES.encode(around) == b'{"name":"a","payload":1,"trace":"00-1"}'


def test_values_other_than_the_defaults_are_read_again() -> None:
    policy = RetryPolicy(max_attempts=9)
    job = a_job(name="a", payload=[1, None], retry_policy=policy, trace="00-1")
    expected = {"name": "a", "payload": [1, None], "retry_policy": policy, "trace": "00-1"}
    assert BODIES.decode(BODIES.encode(job)) == expected


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert BODIES.decode('{"name":"a","colour":"red"}') == {"name": "a"}


def test_a_field_that_cannot_be_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        BODIES.decode('{"name":1}')
