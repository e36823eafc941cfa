"""Outputs: results of other jobs in the payload of a job that waits for them.

In a payload, ``{"$output": 2}`` stands for the result of the third dependency of the job, and
``{"$outputs": [0, 1000]}`` for the list of the results of the first thousand. A position stays
right when a dependency is replaced, such as by a retry. An id, ``{"$output": "<job id>"}``, is
accepted as well, for payloads that are written by hand. Only jobs with dependencies may have
outputs, so the payloads of all others are never searched.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from rota.errors import InvalidInputError
from rota.jobs import JobId
from rota.stores.protocol import JobStore
from rota.worker import Context

OUTPUT = "$output"
OUTPUTS = "$outputs"

_KEY = b'"$output":'
_KEYS = b'"$outputs":'


class Output:
    """Stands in an argument for the result of a job that may not have run yet.

    It can be passed on, alone or inside lists, dicts and dataclasses, and nothing else: its value
    does not exist yet.
    """

    __slots__ = ("job_id",)

    def __init__(self, job_id: JobId) -> None:
        self.job_id = job_id

    def __repr__(self) -> str:
        return f"<output of job {self.job_id}>"

    def __bool__(self) -> bool:
        raise self._refuse("has no truth value")

    def __iter__(self) -> Iterator[Any]:
        raise self._refuse("cannot be iterated")

    def __getitem__(self, key: object) -> Any:
        raise self._refuse(f"has no item {key!r:.40}")

    def __len__(self) -> int:
        raise self._refuse("has no length")

    def __str__(self) -> str:
        raise self._refuse("has no text")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Output):
            return self.job_id == other.job_id
        raise self._refuse("cannot be compared")

    def __lt__(self, other: object) -> bool:
        raise self._refuse("cannot be compared")

    __le__ = __gt__ = __ge__ = __lt__

    def __hash__(self) -> int:
        return hash(self.job_id)

    def __getattr__(self, name: str) -> Any:
        """To a type checker the output is the result, so it accepts the attributes of that."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(self._refuse(f"has no attribute {name!r}").message)

    def _refuse(self, what: str) -> InvalidInputError:
        return InvalidInputError(
            f"The output of job {self.job_id} {what}: its value does not exist yet; pass it to a "
            "task, or await the result",
            {"jobId": self.job_id},
        )


class OutputEncoder:
    """Encodes the arguments of one call as JSON, and collects the jobs whose outputs they hold."""

    __slots__ = ("positions",)

    def __init__(self) -> None:
        self.positions: dict[JobId, int] = {}

    @property
    def job_ids(self) -> tuple[JobId, ...]:
        """The jobs, in the order of their positions."""
        return tuple(self.positions)

    def encode(self, arguments: Any) -> bytes:
        return msgspec.json.encode(arguments, enc_hook=self._stand_in)

    def _stand_in(self, value: Any) -> Any:
        if isinstance(value, Output):
            position = self.positions.setdefault(value.job_id, len(self.positions))
            return {OUTPUT: position}
        fix = "; pass its .output" if hasattr(type(value), "output") else ""
        raise TypeError(f"{type(value).__name__} has no JSON form{fix}")


def may_hold_outputs(encoded: bytes) -> bool:
    """Whether the JSON has a key that is reserved for outputs."""
    return _KEY in encoded or _KEYS in encoded


def shorten(value: Any) -> Any:
    """The payload with lists of consecutive outputs in their short form."""
    if isinstance(value, dict):
        return {name: shorten(inner) for name, inner in value.items()}
    if not isinstance(value, list) or not value:
        return value
    positions = [it.get(OUTPUT) if type(it) is dict and len(it) == 1 else None for it in value]
    first = positions[0]
    if type(first) is int and positions == list(range(first, first + len(positions))):
        return {OUTPUTS: [first, first + len(positions)]}
    return [shorten(inner) for inner in value]


def find_outputs(payload: Any, dependencies: Sequence[JobId]) -> set[JobId]:
    """The jobs whose results the payload needs."""
    found: set[JobId] = set()
    left = [payload]
    while left:
        value = left.pop()
        named = _read_outputs(value, dependencies)
        if named is not None:
            found.update(named)
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value
    return found


def fill_outputs(payload: Any, dependencies: Sequence[JobId], results: Mapping[JobId, Any]) -> Any:
    """The payload with results in the place of outputs; None where a job has no result."""
    named = _read_outputs(payload, dependencies)
    if named is not None:
        values = [results.get(job_id) for job_id in named]
        return values if OUTPUTS in payload else values[0]
    if isinstance(payload, dict):
        return {name: fill_outputs(inner, dependencies, results) for name, inner in payload.items()}
    if isinstance(payload, list):
        return [fill_outputs(inner, dependencies, results) for inner in payload]
    return payload


async def resolve_outputs(context: Context, store: JobStore) -> None:
    """Fill the results of other jobs into the payload that a handler is given."""
    job = context.job
    needed = find_outputs(job.payload, job.dependencies)
    if needed:
        found = await store.results(job.tenant, sorted(needed))
        results = {job_id: msgspec.json.decode(body) for job_id, body in found.items()}
        payload = fill_outputs(job.payload, job.dependencies, results)
        context.job = replace(job, payload=payload)


def _read_outputs(value: Any, dependencies: Sequence[JobId]) -> Sequence[JobId] | None:
    """The jobs that an object of the payload stands for; None if it is an ordinary value."""
    if type(value) is not dict or len(value) != 1:
        return None
    ((key, what),) = value.items()
    match key, what:
        case ("$output", int(position)) if 0 <= position < len(dependencies):
            return [dependencies[position]]
        case ("$output", str(job_id)) if job_id in dependencies:
            return [job_id]
        case ("$outputs", [int(first), int(end)]) if 0 <= first <= end <= len(dependencies):
            return dependencies[first:end]
    return None
