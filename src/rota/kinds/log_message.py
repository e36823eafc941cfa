"""The built-in kind ``log.message``: writes a line to the worker's log."""

import json
import logging
from typing import Any, Literal, TypeVar

import msgspec

from rota.errors import InvalidPayloadError
from rota.escape import escape
from rota.jobs.misfits import explain_misfit
from rota.worker import Context, Discard

Payload = TypeVar("Payload", bound=msgspec.Struct)

_WHOLE = "payload"


def read_payload(payload: Any, kind: type[Payload]) -> Payload:
    """The payload as a record of this kind, or InvalidPayloadError."""
    try:
        return msgspec.convert(payload, kind)
    except msgspec.ValidationError as error:
        field, reason = explain_misfit(error, kind)
        raise InvalidPayloadError(field or _WHOLE, reason) from error


LONGEST_MESSAGE = 10_000

logger = logging.getLogger("rota.kinds.log")

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class LogMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The payload: what is said, how loudly, and what belongs to it."""

    message: str
    level: Literal["debug", "info", "warning", "error"] = "info"
    fields: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if len(self.message) > LONGEST_MESSAGE:
            raise ValueError(f"message must have at most {LONGEST_MESSAGE} characters")


async def log_message(context: Context) -> Discard | None:
    """Log it on ``rota.kinds.log``, in one line, with the job that asked for it."""
    try:
        asked = read_payload(context.payload, LogMessage)
    except InvalidPayloadError as error:
        return Discard(error.message)
    parts = (asked.message, *(f"{name}={_spell(value)}" for name, value in asked.fields.items()))
    logger.log(
        _LEVELS[asked.level],
        "%s",
        escape(" ".join(parts)),
        extra={"event": "LogMessage", "fields": _fields(context, asked)},
    )
    return None


def _fields(context: Context, asked: LogMessage) -> dict[str, Any]:
    job = context.job
    return {
        "tenant": job.tenant,
        "jobId": job.id,
        "kind": job.kind,
        "attempt": context.attempt,
        "message": asked.message,
        "said": asked.fields,
    }


def _spell(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
