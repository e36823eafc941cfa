"""A rule as people write it: cron, RRULE or a duration, recognised by its text."""

import re
from datetime import timedelta
from typing import Any

from rota.clock.duration import Duration, read_duration
from rota.errors import InvalidInputError
from rota.triggers.cron_dialects import EVERY

_SECOND = timedelta(seconds=1)
_RULE = re.compile(r"^\s*(RRULE|DTSTART|EXDATE|RDATE)\b|FREQ=", re.IGNORECASE | re.MULTILINE)
_ZONE = re.compile(r"^DTSTART;(?:.*;)?TZID=([^:;]+)", re.IGNORECASE | re.MULTILINE)
_DURATION = re.compile(r"(\d+(\.\d+)?(ms|[dhms]))+")
_EVERY = {EVERY, "every"}


def read_text(text: str) -> dict[str, Any]:
    """The one of ``cron``, ``rrule`` and ``interval`` that the text is, and a zone it names."""
    if _RULE.search(text):
        zone = _ZONE.search(text)
        return {"rrule": text.strip()} | ({} if zone is None else {"zone": zone[1]})
    words = text.split()
    if len(words) == 2 and words[0] in _EVERY:
        return {"interval": words[1]}
    if _DURATION.fullmatch(text.strip()):
        return {"interval": format_seconds(text.strip(), "when")}
    return {"cron": text.strip()}


def format_seconds(value: Duration, field: str) -> str:
    """A duration as ``1h30m5s``. Raises InvalidInputError for one that is not whole seconds."""
    duration = read_duration(value, field)
    if duration < _SECOND or duration % _SECOND:
        reason = f"{value!s:.60} is not a whole number of seconds, at least one"
        raise InvalidInputError(f"{field}: {reason}", {"field": field, "reason": reason})
    minutes, seconds = divmod(duration // _SECOND, 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)
