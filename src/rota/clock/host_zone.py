"""The zone of the host, which the environment variable ``TZ`` may name or describe."""

import os
from datetime import tzinfo
from io import BytesIO
from zoneinfo import ZoneInfo

from tzlocal import get_localzone

from rota.errors import InvalidInputError

_HEADER = b"TZif2" + bytes(15) + b"".join(n.to_bytes(4, "big") for n in (0, 0, 0, 0, 1, 4))
_UTC = bytes(6) + b"UTC\0"


def read_host_zone() -> tzinfo:
    """The host's zone. ``TZ`` may be a rule of POSIX, such as ``EST5EDT,M3.2.0,M11.1.0``."""
    try:
        return get_localzone()
    except (LookupError, ValueError, OSError) as error:
        rule = os.environ.get("TZ", "")
        try:
            return read_posix_rule(rule)
        except ValueError:
            reason = f'the host\'s zone cannot be read from TZ="{rule}"'
            advice = "pass zone=, or set TZ to a name such as Europe/Berlin"
            raise InvalidInputError(
                f"{reason}; {advice}", {"field": "zone", "value": rule}
            ) from error


def read_posix_rule(rule: str) -> ZoneInfo:
    """The zone that the rule describes, for all times. Raises ValueError if it is not a rule.

    A zone file may end with a rule of this form, so the library reads it from an empty one.
    """
    if not rule or not rule.isascii() or "\n" in rule:
        raise ValueError(f"{rule!r} is not a POSIX rule")
    block = _HEADER + _UTC
    return ZoneInfo.from_file(BytesIO(block + block + f"\n{rule}\n".encode()), key=rule)
