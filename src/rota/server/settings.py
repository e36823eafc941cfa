"""What can be set about a server."""

import msgspec

from rota.observing.standing import Inspect
from rota.server.guarding.settings import GuardSettings

MEBIBYTE = 1 << 20


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``longest_body`` is in bytes; a longer one is refused, and not read to its end.

    ``inspect`` is usually ``partial(inspect_store, url)``; with it the metrics also say how many
    jobs the store keeps in each status.
    """

    longest_body: int = MEBIBYTE
    inspect: Inspect | None = None
    guarding: GuardSettings = GuardSettings()
