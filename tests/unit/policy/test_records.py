"""What all records of the policy have in common."""

import importlib
import pkgutil
from typing import Any

import msgspec
import pytest

import rota.policy
from rota.policy.audit import AuditedAction, AuditEntry
from rota.policy.gate_settings import make_gate_settings
from rota.policy.gates import Maintenance, Only
from rota.policy.limits import Limit, Pause, Rate
from rota.policy.once import Effect, LedgerSettings
from rota.policy.retention import Marks, Progress, StoredRule

NAMED = (
    AuditedAction,
    AuditEntry,
    Effect,
    LedgerSettings,
    Limit,
    Maintenance,
    Marks,
    Only,
    Pause,
    Progress,
    Rate,
    StoredRule,
)


def records() -> list[type[msgspec.Struct]]:
    modules = [
        importlib.import_module(f"{rota.policy.__name__}.{module.name}")
        for module in pkgutil.iter_modules(rota.policy.__path__)
    ]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, msgspec.Struct)
        and value.__module__ == module.__name__
    ]


@pytest.mark.parametrize("record", records(), ids=lambda record: record.__qualname__)
def test_a_record_cannot_be_changed(record: type[msgspec.Struct]) -> None:
    assert record.__struct_config__.frozen


@pytest.mark.parametrize("record", NAMED, ids=lambda record: record.__qualname__)
def test_the_fields_of_a_record_are_given_by_name(record: Any) -> None:
    with pytest.raises(TypeError, match="positional"):
        record(None)


def test_no_entries_hold_back_no_job() -> None:
    assert make_gate_settings(()).is_open_to_all is True
