"""Every page of the documentation is run: what it shows is what happens."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.docs.environment import ROOT, pinned_environment
from tests.docs.pages import Block, read_blocks
from tests.docs.running.page_run import PageRun
from tests.servers.shared import new_database, shared_url

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "bench").glob("*.md")),
]
SERVER_VARIABLE = "DATABASE_URL"
"""A page that reads this is given an empty database on a real server."""


@contextmanager
def wanted_server(blocks: list[Block]) -> Iterator[None]:
    if not any(SERVER_VARIABLE in block.text for block in blocks):
        yield
        return
    with new_database(shared_url()) as url:
        os.environ[SERVER_VARIABLE] = url
        yield


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    blocks = read_blocks(page)
    with pinned_environment(tmp_path), wanted_server(blocks):
        PageRun(page.relative_to(ROOT).as_posix(), tmp_path).run(blocks)
