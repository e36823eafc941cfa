"""What a service needs to know who is calling."""

from datetime import datetime
from typing import Protocol

from rota.access.caller import Caller


class Auth(Protocol):
    """Turns a token into a caller. ``TokenBook`` is one; a host service may bring its own."""

    async def identify(self, token: str, now: datetime) -> Caller | None:
        """Who holds this token; None for every token that is not good, whatever the reason."""
        ...

    async def recall(self, token_id: str, now: datetime) -> Caller | None:
        """Who holds the token with this id, as long as it is good.

        A session on the pages asks at every request, and ends when this gives None. Where there
        are to be no sessions, always give None.
        """
        ...
