"""Log records as single lines of JSON, in specification 3's words."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rota.escape import escape_json

SPOKEN = {"tenant": "guildId", "kind": "type", "attempt": "attempts"}
"""What specification 3 calls the fields of events about jobs; its other words are the same."""

PROMISED = ("guildId", "jobId", "type", "state", "attempts", "errCode", "durationMs")
"""What every line about a job has, null where there is nothing to say."""

STATES = {"JobStarted": "processing", "JobDeferred": "queued"}
"""The state of jobs in events that do not say it, because it is always the same."""


class JsonFormatter(logging.Formatter):
    r"""One line of JSON for every record, whatever users have put into it.

    Lines about jobs have specification 3's fields; those of schedulers the fields of their events;
    all others have a ``message``. Control characters, marks that reorder text and invisible ones
    are written as ``\uNNNN``: a line cannot be split, forged or made to look like another, and
    whoever parses it gets back what was said.
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
    """The fields of an event; of one about a job, in the words of specification 3."""
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
