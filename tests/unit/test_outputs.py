"""Outputs in payloads: finding them, and filling in the results."""

from typing import Any

import pytest

from rota.errors import InvalidInputError
from rota.outputs import Output, fill_outputs, find_outputs, shorten

IDS = tuple(f"01890a5d-ac96-774b-bcce-{number:012x}" for number in range(5))
RESULTS = {job_id: number * 10 for number, job_id in enumerate(IDS)}


@pytest.mark.parametrize(
    ("payload", "filled", "needed"),
    [
        ({"a": {"$output": 1}}, {"a": 10}, {1}),
        ({"a": {"$output": IDS[2]}}, {"a": 20}, {2}),
        ({"a": {"$outputs": [1, 4]}}, {"a": [10, 20, 30]}, {1, 2, 3}),
        ({"a": [1, {"b": {"$output": 4}}]}, {"a": [1, {"b": 40}]}, {4}),
        ({"a": {"$output": 1, "b": 2}}, {"a": {"$output": 1, "b": 2}}, set()),
        ({"a": {"$output": 9}}, {"a": {"$output": 9}}, set()),
        ({"a": {"$output": "x"}}, {"a": {"$output": "x"}}, set()),
        ({"a": {"$outputs": [0, 9]}}, {"a": {"$outputs": [0, 9]}}, set()),
        ({"a": "text"}, {"a": "text"}, set()),
    ],
)
def test_outputs_are_found_and_filled(payload: Any, filled: Any, needed: set[int]) -> None:
    assert find_outputs(payload, IDS) == {IDS[number] for number in needed}
    assert fill_outputs(payload, IDS, RESULTS) == filled


def test_a_job_without_a_result_gives_none() -> None:
    assert fill_outputs({"a": {"$outputs": [0, 2]}}, IDS, {IDS[0]: 1}) == {"a": [1, None]}


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ([{"$output": 0}, {"$output": 1}], {"$outputs": [0, 2]}),
        ([{"$output": 3}], {"$outputs": [3, 4]}),
        ([{"$output": 1}, {"$output": 0}], [{"$output": 1}, {"$output": 0}]),
        ([{"$output": 0}, 1], [{"$output": 0}, 1]),
        ({"a": [{"$output": 0}]}, {"a": {"$outputs": [0, 1]}}),
        ([[{"$output": 0}]], [{"$outputs": [0, 1]}]),
        ([], []),
    ],
)
def test_consecutive_outputs_are_written_short(long: Any, short: Any) -> None:
    assert shorten(long) == short
    assert fill_outputs(short, IDS, RESULTS) == fill_outputs(long, IDS, RESULTS)


@pytest.mark.parametrize(
    "use",
    [
        bool,
        list,
        len,
        str,
        "total: {}".format,
        lambda it: it["x"],
        lambda it: it == 3,
        lambda it: it < 3,
        lambda it: 3 in it,
    ],
)
def test_an_output_cannot_be_used_as_a_value(use: Any) -> None:
    with pytest.raises(InvalidInputError, match="its value does not exist yet"):
        use(Output(IDS[0]))


def test_an_attribute_of_an_output_does_not_exist_yet() -> None:
    output = Output(IDS[0])
    with pytest.raises(AttributeError, match=r"attribute 'total': its value does not exist yet"):
        _ = output.total
    assert output == output  # noqa: PLR0124 - the same object is equal to itself
    assert {output: 1}[output] == 1
