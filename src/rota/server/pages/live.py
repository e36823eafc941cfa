"""Notifies open pages of changes, by server-sent events.

An event carries nothing but its name: the page then asks for its own part again, with the rights
that its session has at that moment. A page that gets no events asks every few seconds.
"""

from collections.abc import AsyncIterator
from datetime import timedelta

from starlette.responses import Response, StreamingResponse

from rota.errors import StoreError
from rota.ops.changes import ChangeFeed
from rota.server.pages.visit import Visit

MOST_STREAMS = 200
"""Every stream is a connection of its own. Pages beyond these ask every few seconds."""

LASTS_FOR = timedelta(seconds=30)
"""Then the browser connects again: the session is checked again, and no server waits longer for
its pages when it stops."""

BEAT_EVERY = timedelta(seconds=10)
"""Times such as "5 s ago" are refreshed at least this often."""

_HELLO = "retry: 500\n\n"


async def stream_changes(visit: Visit) -> Response:
    """The stream of one page. 204 tells the browser not to try again by itself."""
    feed = visit.context.changes
    if feed.is_closed or feed.follower_count >= MOST_STREAMS:
        return Response(status_code=204)
    return StreamingResponse(tell_changes(feed, visit.tenant), media_type="text/event-stream")


async def tell_changes(feed: ChangeFeed, tenant: str) -> AsyncIterator[str]:
    """The text of the stream. It ends when the store cannot be read."""
    yield _HELLO
    try:
        async for has_changed in feed.follow(tenant, lasts_for=LASTS_FOR, beat_every=BEAT_EVERY):
            yield f"event: {'change' if has_changed else 'beat'}\ndata: 1\n\n"
    except StoreError:
        return
