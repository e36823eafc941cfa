"""What a worker may be told, and what it refuses."""

from datetime import timedelta
from typing import Any

import pytest

from rota.errors import InvalidInputError
from rota.worker import WorkerSettings


def test_the_defaults_are_those_of_the_specification() -> None:
    settings = WorkerSettings()
    assert settings.poll_for == timedelta(milliseconds=1000)
    assert settings.batch == 10
    assert settings.lease_for == timedelta(milliseconds=60_000)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch", 0),
        ("batch", True),
        ("batch", 1.5),
        ("concurrency", -1),
        ("lease_for", timedelta(0)),
        ("lease_for", 60),
        ("poll_for", timedelta(seconds=-1)),
        ("grace_for", timedelta(seconds=-1)),
        ("grace_for", None),
        ("retention", timedelta(days=-1)),
        ("queues", "mail"),
        ("queues", ()),
        ("queues", 7),
        ("tenants", [""]),
        ("tenants", [None]),
        ("gate", object()),
        ("limits", object()),
    ],
)
def test_a_senseless_setting_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        WorkerSettings(**{field: value})
    assert caught.value.details["field"] == field
    assert caught.value.message.startswith(field)


def test_no_grace_and_no_retention_are_allowed() -> None:
    settings = WorkerSettings(grace_for=timedelta(0), retention=timedelta(0))
    assert settings.grace_for == settings.retention == timedelta(0)


def test_settings_do_not_change() -> None:
    with pytest.raises(AttributeError):
        WorkerSettings().batch = 5  # type: ignore[misc]  # frozen, which is what is tested
