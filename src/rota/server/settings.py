"""What can be set about a server."""

from datetime import tzinfo

import msgspec

from rota.server.guarding.settings import GuardSettings
from rota.telemetry.health import Inspect

MEBIBYTE = 1 << 20


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``longest_body`` is in bytes; a longer one is refused, and not read to its end.

    ``inspect`` is usually ``partial(inspect_store, url)``; with it the metrics also say how many
    jobs the store keeps in each status. ``zone`` is where the pages are read, and the clock of the
    declarative tasks; left out, it is the host's.
    """

    longest_body: int = MEBIBYTE
    inspect: Inspect | None = None
    guarding: GuardSettings = GuardSettings()
    zone: tzinfo | None = None
