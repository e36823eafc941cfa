"""What a poller may be told, and what is refused."""

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.poller.polling import NOW

from rota.errors import InvalidInputError
from rota.poller import Poller
from rota.poller.settings import PollerSettings
from rota.stores.memory import MemoryStore


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("on_document", "f"),
        ("on_error", 5),
        ("next_delay", 5),
        ("idle_delay", timedelta(seconds=-1)),
        ("reprocess_delay", None),
        ("lock_duration", timedelta(0)),
        ("lock_duration", timedelta(microseconds=999)),
        ("zone", "UTC"),
    ],
)
def test_invalid_settings_are_refused_by_name(field: str, value: object) -> None:
    options: Any = {field: value}
    with pytest.raises(InvalidInputError) as refusal:
        Poller(MemoryStore(), **options)
    assert refusal.value.details["field"] == field


def test_an_option_that_does_not_exist_is_refused() -> None:
    options: Any = {"on_documents": print}
    with pytest.raises(TypeError, match="on_documents"):
        Poller(MemoryStore(), **options)


def test_a_lock_longer_than_the_calendar_ends_with_it() -> None:
    assert PollerSettings(lock_duration=timedelta.max).lock_until(NOW).year == 9999
