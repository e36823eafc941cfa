"""Caps, and the places that are left under them."""

import pytest

from rota.errors import InvalidInputError
from rota.stores.kernel.limits import Room, counts_running
from rota.stores.protocol import Cap


def test_a_partition_has_room_if_each_of_its_scopes_has() -> None:
    room = Room([Cap("a", None, running=3), Cap(None, "x", running=2)], {("a", "x"): 1})
    room.take("a", "x")
    assert not room.has_place("a", "x")
    assert not room.has_place("b", "x")
    assert room.has_place("a", "y")
    room.take("a", "y")
    assert not room.has_place("a", "y")
    assert room.has_place("b", "y")
    assert room.full_scopes() == [("a", None), (None, "x")]


def test_an_unused_place_is_free_again() -> None:
    room = Room([Cap("a", "x", count=1)], {})
    room.take("a", "x")
    room.give_back("a", "x")
    assert room.has_place("a", "x")


def test_the_narrower_of_two_caps_holds() -> None:
    caps = [Cap(running=5), Cap(running=9, count=1), Cap(count=3)]
    room = Room(caps, {("a", "x"): 2, ("b", "y"): 1})
    assert room.has_place("c", "z")
    room.take("c", "z")
    assert not room.has_place("c", "z")


def test_more_that_run_than_are_allowed_leave_no_place() -> None:
    room = Room([Cap("a", running=1)], {("a", "x"): 4})
    room.give_back("a", "x")
    assert not room.has_place("a", "x")


def test_only_a_cap_on_what_runs_asks_how_much_runs() -> None:
    assert not counts_running([Cap("a", count=1)])
    assert counts_running([Cap("a", count=1), Cap("b", running=0)])


@pytest.mark.parametrize("field", ["running", "count"])
@pytest.mark.parametrize("value", [-1, 1.0, True, "1"])
def test_a_cap_that_is_not_a_number_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=f"^{field} must be an integer from 0 on"):
        Cap("a", **{field: value})  # type: ignore[arg-type] # what is wrong is the point
