"""Which handlers are accepted, and which one is found."""

import functools
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.worker.workshop import succeed

from rota.errors import InvalidInputError
from rota.worker import Context
from rota.worker.registry import Registry


def plain(_: Context) -> None:
    """A handler that is not a coroutine function."""


async def named(_: Context, name: str) -> str:
    return name


class Callable:
    async def __call__(self, _: Context) -> None:
        """A handler that is an object."""


@pytest.mark.parametrize(
    ("work", "is_async"),
    [
        (succeed, True),
        (plain, False),
        (functools.partial(named, name="x"), True),
        (Callable(), True),
    ],
)
def test_coroutine_functions_are_recognised(work: Any, is_async: bool) -> None:
    assert Registry({"kind": work}, ())["kind"].is_async is is_async


def test_a_kind_has_one_handler() -> None:
    registry = Registry({"kind": succeed}, ())
    with pytest.raises(InvalidInputError, match="'kind' has a handler already"):
        registry.add("kind", plain)
    assert registry["kind"].work is succeed


def generate(_: Context) -> Iterator[None]:
    yield


async def generate_later(_: Context) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("work", [None, "module.function", generate, generate_later])
def test_work_that_cannot_be_called_is_refused(work: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Registry({"kind": work}, ())
    assert caught.value.details["field"] == "handler"


@pytest.mark.parametrize("kind", ["", None, 7])
def test_a_kind_is_a_text(kind: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Registry({kind: succeed}, ())
    assert caught.value.details["field"] == "kind"


@pytest.mark.parametrize("timeout", [timedelta(0), 3])
def test_a_timeout_is_longer_than_no_time(timeout: Any) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Registry({}, ()).add("kind", succeed, timeout=timeout)
    assert caught.value.details["field"] == "timeout"


def test_kinds_that_notify_are_known_with_and_without_a_handler() -> None:
    registry = Registry({"a": succeed}, {"a", "elsewhere"})
    registry.add("b", succeed, notifies=True)
    registry.add("c", succeed)
    kinds = ("a", "b", "c", "elsewhere", "unknown")
    assert [registry.notifies(kind) for kind in kinds] == [True, True, False, True, False]


def test_one_name_is_not_a_collection_of_kinds() -> None:
    with pytest.raises(InvalidInputError, match="notifies"):
        Registry({}, "reminder.send")


def test_a_registry_lists_its_kinds() -> None:
    registry = Registry({"a": succeed, "b": plain}, ())
    assert (sorted(registry), len(registry)) == (["a", "b"], 2)


def test_a_handler_says_by_an_attribute_that_it_notifies() -> None:
    def send(context: object) -> None: ...

    send.notifies = True  # type: ignore[attr-defined] # any function may have attributes
    registry = Registry({"send": send, "other": print}, ())
    assert [registry.notifies(kind) for kind in ("send", "other", "unknown")] == [
        True,
        False,
        False,
    ]
