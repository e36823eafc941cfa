"""Log records as single lines of JSON, with specification 3's field names."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rota.escape import escape_json

SPOKEN = {"tenant": "guildId", "kind": "type", "attempt": "attempts"}
"""Specification 3's names for the fields of job events; other names are the same."""

PROMISED = ("guildId", "jobId", "type", "state", "attempts", "errCode", "durationMs")
"""The fields of every line about a job, null where they do not apply."""

STATES = {"JobStarted": "processing", "JobDeferred": "queued"}
"""The job state of events that do not carry one, because it is always the same."""


class JsonFormatter(logging.Formatter):
    r"""Formats every record as one line of JSON, whatever text users supplied.

    Lines about jobs have specification 3's fields, lines of schedulers the fields of their events,
    all others a ``message``. Control, bidi and invisible characters are written as ``\uNNNN``, so
    that a line cannot be split or forged; a JSON parser restores them.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _format_instant(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        event, fields = getattr(record, "event", None), getattr(record, "fields", None)
        if isinstance(event, str) and isinstance(fields, Mapping):
            line |= {"event": event, **speak(event, fields)}
        else:
            line["message"] = record.getMessage()
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escape_json(json.dumps(line, ensure_ascii=False, default=str))


def speak(event: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event; for job events, with specification 3's names."""
    if "jobId" not in fields or "tenant" not in fields:
        return dict(fields)
    spoken = {SPOKEN.get(name, name): value for name, value in fields.items()}
    if event in STATES:
        spoken.setdefault("state", STATES[event])
    promised = {name: spoken.pop(name, None) for name in PROMISED}
    return promised | spoken


def _format_instant(seconds: float) -> str:
    instant = datetime.fromtimestamp(seconds, UTC)
    return instant.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
