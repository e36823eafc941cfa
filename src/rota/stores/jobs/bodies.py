"""What a table keeps of a job beside its columns, for every backend that has tables.

What the statements look at has a column of its own. The rest of the record, whatever fields it may
come to have, is kept as JSON in ``body``, without those that have their usual value: a plain job's
is little more than its name and payload, and is read in little time.
"""

from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Any, TypedDict

import msgspec
from msgspec.structs import FieldInfo
from msgspec.structs import fields as fields_of

from rota.jobs import Job, RetryPolicy

_encode = msgspec.json.Encoder().encode


class BodyCodec:
    """The fields of a job that are not among ``columns``, as JSON and back."""

    def __init__(self, columns: Collection[str]) -> None:
        rest = [field for field in fields_of(Job) if field.name not in columns]
        self._read: Callable[[Job], tuple[Any, ...]] = attrgetter(*(field.name for field in rest))
        self._policy_at = [field.name for field in rest].index("retry_policy")
        self._usual_policy: RetryPolicy = rest[self._policy_at].default
        self._body: Callable[..., Any] = msgspec.defstruct(
            "_Body", [_with_default(field) for field in rest], omit_defaults=True, gc=False
        )
        kept: Any = TypedDict("kept", {field.name: field.type for field in rest}, total=False)  # type: ignore[misc] # the fields are those of Job
        self.decode: Callable[[str | bytes], Any] = msgspec.json.Decoder(kept).decode
        """The fields by name, without those that have their usual value."""

    def encode(self, job: Job) -> bytes:
        """The fields, as JSON."""
        rest = self._read(job)
        policy, at = rest[self._policy_at], self._policy_at
        # It is left out only when it is the very same.
        if policy is not self._usual_policy and policy == self._usual_policy:
            rest = (*rest[:at], self._usual_policy, *rest[at + 1 :])
        return _encode(self._body(*rest))


def _with_default(field: FieldInfo) -> tuple[str, Any] | tuple[str, Any, Any]:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    if field.default is not msgspec.NODEFAULT:
        return field.name, field.type, field.default
    return field.name, field.type
