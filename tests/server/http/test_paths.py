"""Which endpoint a path belongs to."""

from typing import Any

import pytest
from starlette.routing import Match, Router

from rota.server.http.endpoint import serve_path, sort_paths

PATHS = ["/a/b/jobs/{job_id}", "/a/b/jobs", "/a/b/jobs/{job_id}/{part}", "/a/b/jobs/search",
         "/a/b/jobs/{job_id}/why", "/v1.0/x"]  # fmt: skip


class Endpoint:
    """Never called here."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def __call__(self, _scope: Any, _receive: Any, _send: Any) -> None:
        raise NotImplementedError


router = Router([serve_path(path, Endpoint(path)) for path in sort_paths(PATHS)])


def find(path: str, root: str = "") -> tuple[str, dict[str, str]] | None:
    scope = {"type": "http", "path": path, "root_path": root, "method": "GET"}
    for route in router.routes:
        match, found = route.matches(scope)
        if match is Match.FULL:
            return found["endpoint"].path, found["path_params"]
    return None


@pytest.mark.parametrize(
    ("path", "found", "parts"),
    [
        ("/a/b/jobs", "/a/b/jobs", {}),
        ("/a/b/jobs/7", "/a/b/jobs/{job_id}", {"job_id": "7"}),
        ("/a/b/jobs/search", "/a/b/jobs/search", {}),
        ("/a/b/jobs/7/why", "/a/b/jobs/{job_id}/why", {"job_id": "7"}),
        ("/a/b/jobs/7/how", "/a/b/jobs/{job_id}/{part}", {"job_id": "7", "part": "how"}),
        ("/a/b/jobs/a\nb", "/a/b/jobs/{job_id}", {"job_id": "a\nb"}),
        ("/a/b/jobs/a\n", "/a/b/jobs/{job_id}", {"job_id": "a\n"}),
    ],
)
def test_the_path_with_fewer_parameters_comes_first(
    path: str, found: str, parts: dict[str, str]
) -> None:
    assert find(path) == (found, parts)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/a/b/jobs/",
        "/a/b/jobs//",
        "/a/b/jobs\n",
        "/a/b/Jobs",
        "/a/b/jobs/7/why/x",
        "/v1a0/x",
    ],
)
def test_other_paths_match_nothing(path: str) -> None:
    assert find(path) is None


def test_the_prefix_of_a_mount_is_ignored() -> None:
    assert find("/rota/a/b/jobs", "/rota") == ("/a/b/jobs", {})
    assert find("/rota/a/b/jobs/7", "/rota") == ("/a/b/jobs/{job_id}", {"job_id": "7"})
    assert find("/rota-a/b/jobs", "/rota") is None
