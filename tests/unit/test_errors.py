"""Errors are declared as fields and a template."""

from collections.abc import Sequence
from copy import copy, deepcopy
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from rota.errors import RotaError, template


@template("{name} waits until {until}", "name=shown field until")
class WaitsError(RotaError):
    field: ClassVar[str] = "fixed"
    until: datetime
    tags: Sequence[str] = ()

    @property
    def name(self) -> str:
        return "It"

    @property
    def shown(self) -> str:
        return "/".join(self.tags)


@template("{waited_for:g} s, {job_id}")
class SlowError(RotaError):
    job_id: str
    waited_for: timedelta


NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)


def test_message_and_details_come_from_the_template() -> None:
    error = WaitsError(NOON, ("a", "b"))
    assert str(error) == error.message == "It waits until 2027-03-01T12:00:00+00:00"
    assert error.details == {
        "name": "a/b",
        "field": "fixed",
        "until": "2027-03-01T12:00:00+00:00",
    }


def test_fields_are_attributes_as_given_and_sequences_are_lists() -> None:
    error = WaitsError(NOON, tags=("a", "b"))
    assert error.until is NOON
    assert error.tags == ["a", "b"]
    assert list(WaitsError(until=NOON).tags) == []


def test_an_error_can_be_copied() -> None:
    error = WaitsError(NOON, ("a", "b"))
    for same in (copy(error), deepcopy(error)):
        assert type(same) is WaitsError
        assert same is not error
        assert (str(same), vars(same)) == (str(error), vars(error))


def test_details_are_all_fields_in_camel_case_by_default() -> None:
    error = SlowError("7", timedelta(seconds=90))
    assert error.message == "90 s, 7"
    assert error.details == {"jobId": "7", "waitedFor": 90.0}


def test_a_value_of_another_type_is_shown_as_it_is() -> None:
    assert SlowError(7, timedelta(0)).details["jobId"] == 7  # type: ignore[arg-type] # on purpose


def test_braces_in_a_value_are_text() -> None:
    assert SlowError("{job_id}", timedelta(0)).message == "0 s, {job_id}"


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), (("7",), {}), (("7", timedelta(0), 1), {}), (("7", timedelta(0)), {"x": 1})],
)
def test_wrong_arguments_are_refused(args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="SlowError takes job_id, waited_for"):
        SlowError(*args, **kwargs)  # type: ignore[arg-type] # on purpose
