"""What an update of a job may say: new values, and of what never changes only the value it has."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from rota.errors import InvalidJobError, JobChangedError
from rota.jobs.fields import read_instant
from rota.server.api.shapes.words import DEPENDENCIES, INSTANT, NAME, PRIORITY, QUEUE, UUID, WORD

# The values are checked against the job that they are for, not before: whether there is such a job,
# and whether it may change at all, is said first.
Fixed = (
    Annotated[
        Any,
        Meta(
            description="Never changes: only the value that it has.",
            extra_json_schema={"readOnly": True},
        ),
    ]
    | UnsetType
)


class JobUpdate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New values for some fields of a job; the others stay as they are.

    A ``retry_policy`` replaces the whole policy. ``dependencies`` change only while the job is
    PENDING; they replace those it has. A job can be sent back as it was read, with changes.
    """

    name: Annotated[Any, Meta(extra_json_schema={"type": "string", **NAME})] | UnsetType = UNSET
    queue: Annotated[Any, Meta(extra_json_schema={"type": "string", **QUEUE})] | UnsetType = UNSET
    kind: Annotated[Any, Meta(extra_json_schema={"type": "string", **WORD})] | UnsetType = UNSET
    payload: Any | UnsetType = UNSET
    priority: (
        Annotated[Any, Meta(extra_json_schema={"type": "integer", **PRIORITY})] | UnsetType
    ) = UNSET
    run_at: Annotated[Any, Meta(extra_json_schema={"type": "string", **INSTANT})] | UnsetType = (
        UNSET
    )
    dependencies: (
        Annotated[
            Any,
            Meta(
                extra_json_schema={
                    "type": "array",
                    "items": {"type": "string", **UUID},
                    **DEPENDENCIES,
                }
            ),
        ]
        | UnsetType
    ) = UNSET
    retry_policy: (
        Annotated[Any, Meta(extra_json_schema={"$ref": "#/components/schemas/RetryPolicyBody"})]
        | UnsetType
    ) = UNSET
    auto_remove: Annotated[Any, Meta(extra_json_schema={"type": "boolean"})] | UnsetType = UNSET
    id: Fixed = UNSET
    tenant: Fixed = UNSET
    status: Fixed = UNSET
    attempt_count: Fixed = UNSET
    loss_count: Fixed = UNSET
    last_error: Fixed = UNSET
    ending: Fixed = UNSET
    lease: Fixed = UNSET
    deferral: Fixed = UNSET
    idempotency_key: Fixed = UNSET
    recurrence: Fixed = UNSET
    occurrence_at: Fixed = UNSET
    origin: Fixed = UNSET
    missed_count: Fixed = UNSET
    is_paused: Fixed = UNSET
    replaces: Fixed = UNSET
    trace: Fixed = UNSET
    created_at: Fixed = UNSET
    updated_at: Fixed = UNSET


CHANGEABLE = JobUpdate.__struct_fields__[: JobUpdate.__struct_fields__.index("id")]
_INNER_NAMES = {"run_at": "due_at"}


def list_changes(update: JobUpdate) -> dict[str, Any]:
    """The new values, by the names that ``rota.jobs`` has for the fields.

    Among them ``updated_at``, which is the one it has: that it still is, when the others are
    written, is for the store to see.
    """
    given = {name: getattr(update, name) for name in (*CHANGEABLE, "updated_at")}
    return {
        _INNER_NAMES.get(name, name): value for name, value in given.items() if value is not UNSET
    }


def list_fixed(update: JobUpdate) -> dict[str, Any]:
    """What the update says of fields that never change."""
    names = JobUpdate.__struct_fields__[len(CHANGEABLE) :]
    given = {name: getattr(update, name) for name in names}
    return {name: value for name, value in given.items() if value is not UNSET}


def check_fixed(fixed: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
    """Refuse a value other than the one that is shown for the job.

    JobChangedError where it was the right one once: the job was changed since it was read.
    """
    if "updated_at" in fixed and not _is_same(
        "updated_at", fixed["updated_at"], shown["updated_at"]
    ):
        raise JobChangedError(shown["id"], shown["updated_at"])
    for name, value in fixed.items():
        if not _is_same(name, value, shown[name]):
            raise InvalidJobError(name, "never changes")


def _is_same(name: str, value: Any, kept: Any) -> bool:
    if name.endswith("_at") and isinstance(kept, str) and isinstance(value, str):
        return read_instant(value, name) == read_instant(kept, name)
    return isinstance(value, bool) is isinstance(kept, bool) and bool(value == kept)
