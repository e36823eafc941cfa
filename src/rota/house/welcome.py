"""What a new store is given, so that there is something to look at and a way in."""

from secrets import randbits

from rota.access import EVERY_SCOPE, IssuedToken, TokenBook
from rota.clock.protocol import Clock
from rota.control.tokens import TokenDesk, TokenWish
from rota.jobs.record import DEFAULT_TENANT
from rota.rail import Rail, RailSettings
from rota.rail.surroundings import Surroundings
from rota.stores.opened import OpenStore

FIRST_TOKEN = "first token"  # noqa: S105 - the name of a token
FIRST_JOB = "welcome"
ISSUER = "rota up"
REASON = "nobody had a token for this store"
GREETING = "Rota is up: this was its first job."


async def issue_first_token(store: OpenStore, clock: Clock) -> IssuedToken | None:
    """A token for everything, on a store that never had one; None on every other."""
    book = TokenBook(store, clock)
    if await book.list_tokens():
        return None
    around = Surroundings(store, DEFAULT_TENANT, clock, RailSettings(), randbits)
    wish = TokenWish(FIRST_TOKEN, EVERY_SCOPE)
    return await TokenDesk(around, book).issue(wish, ISSUER, REASON)


async def schedule_first_job(store: OpenStore, clock: Clock) -> None:
    """A job that greets, once all else has started; there is only ever one of them."""
    await Rail(store, clock=clock).schedule_once(
        "log.message", {"message": GREETING}, run_at=clock.now(), idempotency_key=FIRST_JOB
    )
