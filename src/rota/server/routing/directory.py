"""Which endpoint a path belongs to, found in one step however many there are."""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import URLPath
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send

_PART = re.compile(r"{(\w+)}")

Pattern = tuple[re.Pattern[str], ASGIApp]


class Directory(BaseRoute):
    """Every path of a table as one route of Starlette, which would try them one after another.

    A path without variable parts is looked up. Of others only those of as many parts are tried,
    and the one whose first variable part comes last is the one that fits.
    """

    def __init__(self, endpoints: Mapping[str, ASGIApp]) -> None:
        self._plain = {path: app for path, app in endpoints.items() if "{" not in path}
        self._patterns: defaultdict[int, list[Pattern]] = defaultdict(list)
        for path in sorted(endpoints, key=_specificity):
            if "{" in path:
                self._patterns[path.count("/")].append((_compile(path), endpoints[path]))

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        path = _path_within(scope)
        endpoint = self._plain.get(path)
        if endpoint is not None:
            return Match.FULL, {"endpoint": endpoint, "path_params": {}}
        for pattern, each in self._patterns.get(path.count("/"), ()):
            found = pattern.fullmatch(path)
            if found is not None:
                return Match.FULL, {"endpoint": each, "path_params": found.groupdict()}
        return Match.NONE, {}

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        """Paths are written in the table, and have no names beside that."""
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await scope["endpoint"](scope, receive, send)


def _path_within(scope: Scope) -> str:
    """The path without the prefix that the service is mounted under."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _compile(path: str) -> re.Pattern[str]:
    parts = _PART.split(path)
    named = [
        f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts)
    ]
    return re.compile("".join(named))


def _specificity(path: str) -> list[bool]:
    return [part.startswith("{") for part in path.split("/")]
