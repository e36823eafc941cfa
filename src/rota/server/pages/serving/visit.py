"""One request for a page: who asks, when, and how links are written for them."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, tzinfo
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from starlette.requests import Request

from rota.auth.caller import Caller, Scope
from rota.server.pages.serving.memory import ShortMemory
from rota.server.surroundings import Surroundings

HOME = "/admin"

Found = TypeVar("Found")


class Visit(NamedTuple):
    """Everything that a page is made from, apart from what it shows.

    ``has_doors`` tells whether people sign in here, and so may sign out.
    """

    request: Request
    caller: Caller
    around: Surroundings
    memory: ShortMemory
    now: datetime
    zone: tzinfo
    has_doors: bool = False

    @property
    def may_operate(self) -> bool:
        return self.caller.may(Scope.OPERATE)

    @property
    def may_administer(self) -> bool:
        """Whether they may see what belongs to no tenant, such as declarative tasks."""
        return self.caller.may(Scope.ADMIN)

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    @property
    def is_refresh(self) -> bool:
        """Whether only the part of the page that changes is wanted."""
        return self.request.headers.get("hx-request") == "true"

    @property
    def here(self) -> str:
        """The address of this page, with what was chosen on it."""
        path = self.request.url.path
        query = self.request.url.query
        return f"{quote(path)}?{query}" if query else quote(path)

    @property
    def base(self) -> str:
        """Where the service is, as examples in the pages show it."""
        url = self.request.url
        return f"{url.scheme}://{url.netloc}{self.request.scope.get('root_path', '')}"

    async def recall(self, question: str, find_out: Callable[[], Awaitable[Found]]) -> Found:
        """What is found out for this tenant, or was a moment ago if it takes long."""
        return await self.memory.recall(self.tenant, question, find_out)

    def ask(self, name: str, default: str = "") -> str:
        """One value of the query."""
        return self.request.query_params.get(name, default)

    def link(self, *steps: str, **query: object) -> str:
        return link_to(self.request, *steps, **query)


def link_to(request: Request, *steps: str, **query: object) -> str:
    """The address of a page, under whatever prefix the service is mounted.

    Steps and values are escaped; values that are empty are left out.
    """
    root = str(request.scope.get("root_path", "")).rstrip("/")
    path = "/".join([f"{quote(root)}{HOME}", *(quote(step, safe="") for step in steps)])
    return path + write_query(query)


def write_query(query: Mapping[str, object]) -> str:
    chosen = {name: value for name, value in query.items() if value not in {None, ""}}
    return f"?{urlencode(chosen, doseq=True)}" if chosen else ""
