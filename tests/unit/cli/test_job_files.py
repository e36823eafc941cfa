"""Files of jobs are read piece by piece: lists, objects with a list, and a job on each line."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.cli import bulk
from rota.cli.bulk import JobFile, read_jobs
from rota.errors import InvalidInputError

JOBS = [
    {"name": f"job {number}", "payload": {"text": '"]},{[ä😀\\' * number}} for number in range(9)
]


class Trickle(io.BytesIO):
    """Gives a few bytes at a time, however many are asked for."""

    def __init__(self, content: bytes, size: int) -> None:
        super().__init__(content)
        self._size = size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._size if size is None or size < 0 else min(size, self._size))


def read(content: bytes, size: int = 1 << 20) -> list[Any]:
    return list(JobFile(Trickle(content, size), len(content)).read())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "content",
    [
        json.dumps(JOBS),
        json.dumps(JOBS, indent=2, ensure_ascii=False),
        json.dumps({"jobs": JOBS}, ensure_ascii=False) + "\n",
        "\n".join(json.dumps(job, ensure_ascii=False) for job in JOBS),
        " \n" + "".join(json.dumps(job) for job in JOBS) + " \n",
    ],
    ids=["list", "indented", "object", "lines", "in a row"],
)
def test_jobs_are_read_however_the_file_arrives(content: str, size: int) -> None:
    file = JobFile(Trickle(content.encode(), size), None)
    assert list(file.read()) == JOBS
    assert file.read_count == len(content.encode())


@given(st.lists(st.recursive(st.none() | st.integers() | st.text(), st.lists)), st.integers(1, 9))
def test_any_list_is_read_as_json_has_it(values: list[Any], size: int) -> None:
    assert read(json.dumps(values).encode(), size) == values


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'[{"name": "a"}', "is missing after a job"),
        (b'[{"name": "a"} {"name": "b"}]', "is missing after a job"),
        (b'[{"name": "a"}] x', "something follows"),
        (b'{"jobs": [{"name": "a"}]', '"}" is missing'),
        (b'[{"name": "a"}, {"name": ]', "Expecting value"),
        (b'{"name": "a"}\n{"name"', "is not JSON"),
        (b'[{"name": "\xff"}]', "is not UTF-8"),
        (b'[{"name": "\xc3', "is not UTF-8"),
        (b"[" + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_invalid_json_is_refused_with_its_position(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidInputError, match="near byte") as refused:
        read(content)
    assert reason in refused.value.message


def test_a_job_of_any_length_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "LONGEST_JOB", 1 << 20)
    with pytest.raises(InvalidInputError, match="has a job of more than 1 MiB"):
        read(b'[{"name": "' + b"x" * (4 << 20))


@pytest.mark.parametrize("content", [b"", b"[]", b"7", b'{"job": []}', b'["a"]', b'{"jobs": []}'])
def test_a_file_without_jobs_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInputError, match="FILE must hold a list of jobs"):
        list(read_jobs(JobFile(io.BytesIO(content), None)))
