"""Which endpoint a path belongs to."""

from typing import Any

import pytest
from starlette.routing import Match, NoMatchFound

from rota.server.routing.directory import Directory


async def nothing(_scope: Any, _receive: Any, _send: Any) -> None:
    """Never asked here."""


PATHS = ["/jobs", "/jobs/{job_id}", "/jobs/search", "/jobs/{job_id}/why", "/jobs/{job_id}/{part}",
         "/v1.0/x"]  # fmt: skip
ENDPOINTS = {path: type("Endpoint", (), {"__call__": nothing, "path": path})() for path in PATHS}
directory = Directory(ENDPOINTS)


def find(path: str, root: str = "") -> tuple[str, dict[str, str]] | None:
    match, scope = directory.matches({"type": "http", "path": path, "root_path": root})
    if match is Match.NONE:
        return None
    assert match is Match.FULL
    return scope["endpoint"].path, scope["path_params"]


@pytest.mark.parametrize(
    ("path", "found", "parts"),
    [
        ("/jobs", "/jobs", {}),
        ("/jobs/7", "/jobs/{job_id}", {"job_id": "7"}),
        ("/jobs/search", "/jobs/search", {}),
        ("/jobs/7/why", "/jobs/{job_id}/why", {"job_id": "7"}),
        ("/jobs/7/how", "/jobs/{job_id}/{part}", {"job_id": "7", "part": "how"}),
        ("/jobs/a\nb", "/jobs/{job_id}", {"job_id": "a\nb"}),
    ],
)
def test_the_path_with_fewer_variable_parts_comes_first(
    path: str, found: str, parts: dict[str, str]
) -> None:
    assert find(path) == (found, parts)


@pytest.mark.parametrize(
    "path", ["", "/", "/jobs/", "/jobs//", "/Jobs", "/jobs/7/why/x", "/v1a0/x"]
)
def test_other_paths_are_nobodys(path: str) -> None:
    assert find(path) is None


def test_a_prefix_is_left_out_where_the_service_is_mounted() -> None:
    assert find("/rota/jobs", "/rota") == ("/jobs", {})
    assert find("/rota/jobs/7", "/rota") == ("/jobs/{job_id}", {"job_id": "7"})
    assert find("/rotajobs", "/rota") is None


def test_only_http_is_served_and_no_path_has_a_name() -> None:
    assert directory.matches({"type": "websocket", "path": "/jobs"})[0] is Match.NONE
    with pytest.raises(NoMatchFound):
        directory.url_path_for("jobs")
