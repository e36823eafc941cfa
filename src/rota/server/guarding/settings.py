"""What can be set about who is served, and how much."""

from datetime import timedelta

import msgspec

from rota.auth.masking import SECRET_WORDS
from rota.auth.sessions import SESSION_FOR
from rota.policy.limits import Rate

_SECOND = timedelta(seconds=1)


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a server allows each of its callers; every None means as much as they like.

    ``token_rate`` counts the requests of a token, ``stranger_rate`` those from one address that no
    good token came with; each process of a server counts for itself. ``waiting_limit`` is how many
    jobs of a tenant may wait before no more are taken. ``hosts`` are the names the server answers
    to, without ports. A body must have arrived within ``body_within``. Fields of payloads whose
    names hold one of ``masked_words`` are not shown on the pages.
    """

    token_rate: Rate | None = Rate(count=1_000, per=_SECOND, burst=2_000)
    stranger_rate: Rate | None = Rate(count=20, per=_SECOND, burst=100)
    waiting_limit: int | None = 5_000_000
    hosts: tuple[str, ...] | None = None
    body_within: timedelta | None = timedelta(seconds=30)
    session_for: timedelta = SESSION_FOR
    masked_words: tuple[str, ...] = SECRET_WORDS
