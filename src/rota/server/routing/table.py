"""The route table as Starlette serves it."""

from collections import defaultdict
from collections.abc import Iterable

from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from rota.errors import UnknownPathError
from rota.server.routing.directory import Directory
from rota.server.routing.endpoint import Keeping, PathEndpoint, Served
from rota.server.routing.problems import answer_error
from rota.server.routing.replies import send_reply
from rota.server.routing.route import Route


def serve_routes(routes: Iterable[Route], keeping: Keeping) -> Directory:
    """All routes, by their paths."""
    by_path: defaultdict[str, list[Served]] = defaultdict(list)
    for route in routes:
        by_path[route.path].append(Served(route, keeping))
    return Directory({path: PathEndpoint(served) for path, served in by_path.items()})


async def serve_unknown(scope: AsgiScope, _receive: Receive, send: Send) -> None:
    """What is said where there is nothing."""
    if scope["type"] == "http":
        reply = answer_error(UnknownPathError(scope["path"]))
        await send_reply(reply, send, is_head=scope["method"] == "HEAD")
