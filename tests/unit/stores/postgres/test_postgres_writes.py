"""How writes are put in order, cut and taken from a stream."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from rota.stores.documents import take_batch
from rota.stores.postgres import documents as writes_module
from rota.stores.postgres.documents import plan_steps
from rota.stores.protocol import DocumentWrite


def write(key: str, expected: int | None = None, body: bytes | None = b"") -> DocumentWrite:
    return DocumentWrite("tasks", key, expected, body)


def test_writes_to_different_documents_are_one_step_in_the_order_of_names() -> None:
    given = [write("c"), write("a", 1), write("b", 2, None)]
    assert plan_steps(given) == [[(1, given[1]), (2, given[2]), (0, given[0])]]


def test_writes_to_the_same_document_go_one_after_the_other() -> None:
    given = [write("b"), write("b", 1), write("a"), write("b", 2, None)]
    positions = [[position for position, _ in step] for step in plan_steps(given)]
    assert positions == [[2, 0], [1], [3]]


def test_the_same_key_in_another_collection_is_another_document() -> None:
    given = [DocumentWrite("x", "a", None, b""), DocumentWrite("y", "a", None, b"")]
    assert len(plan_steps(given)) == 1


def test_no_writes_need_no_step() -> None:
    assert plan_steps([]) == []


def test_a_step_is_cut_where_it_holds_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes_module, "MOST_AT_ONCE", 3)
    steps = plan_steps([write(f"{number}") for number in range(7)])
    assert [len(step) for step in steps] == [3, 3, 1]
    assert [position for step in steps for position, _ in step] == list(range(7))


def test_a_step_is_cut_where_it_grows_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes_module, "MOST_BYTES_AT_ONCE", 10)
    sizes = [4, 4, 4, 50, 1, 9, 1]
    given = [write(f"{index}", body=bytes(size)) for index, size in enumerate(sizes)]
    steps = plan_steps([*given, write("9", 1, None)])
    assert [[position for position, _ in step] for step in steps] == [
        [0, 1],
        [2],
        [3],
        [4, 5],
        [6, 7],
    ]


def test_a_stream_is_taken_batch_by_batch() -> None:
    stream = iter([write(f"{number}") for number in range(7)])
    batches = [take_batch(stream, 3, 100) for _ in range(3)]
    assert [len(batch.writes) for batch in batches] == [3, 3, 1]
    assert [batch.is_last for batch in batches] == [False, False, True]


def test_large_bodies_end_a_batch_early() -> None:
    stream = iter([write("a", body=bytes(6)), write("b", 1, None), write("c", body=bytes(6))])
    assert len(take_batch(stream, 100, 10).writes) == 3
    assert take_batch(stream, 100, 10).is_last


def test_a_stream_is_not_read_ahead_of_its_batch() -> None:
    taken: list[int] = []

    def stream() -> Iterator[DocumentWrite]:
        for number in range(10):
            taken.append(number)
            yield write(f"{number}")

    generator = stream()
    for _ in pairwise(range(3)):
        take_batch(generator, 2, 100)
    assert taken == [0, 1, 2, 3]


def test_an_error_in_a_stream_follows_the_writes_before_it() -> None:
    def stream() -> Iterator[DocumentWrite]:
        yield write("a")
        raise KeyError("broken")

    batch = take_batch(stream(), 100, 100)
    assert [each.key for each in batch.writes] == ["a"]
    assert isinstance(batch.error, KeyError)
