"""What a new store is given, so that there is something to look at and a way in."""

from rota.access import EVERY_SCOPE, IssuedToken, TokenBook
from rota.clock.protocol import Clock
from rota.jobs.record import DEFAULT_TENANT
from rota.rail import Rail
from rota.stores.opened import OpenStore

FIRST_TOKEN = "first token"  # noqa: S105 - the name of a token
FIRST_JOB = "welcome"
GREETING = "Rota is up: this was its first job."


async def issue_first_token(book: TokenBook) -> IssuedToken | None:
    """A token for everything, on a store that never had one; None on every other."""
    if await book.list_tokens():
        return None
    return await book.issue(DEFAULT_TENANT, EVERY_SCOPE, FIRST_TOKEN)


async def schedule_first_job(store: OpenStore, clock: Clock) -> None:
    """A job that greets; there is only ever one of them."""
    await Rail(store, clock=clock).schedule_once(
        "log.message", {"message": GREETING}, run_at=clock.now(), idempotency_key=FIRST_JOB
    )
