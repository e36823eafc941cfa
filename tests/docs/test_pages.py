"""Every page of the documentation is run: what it shows is what happens."""

from pathlib import Path

import pytest
from tests.docs.page_run import PageRun
from tests.docs.pages import read_blocks
from tests.docs.surroundings import ROOT, pinned_surroundings

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "bench").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    with pinned_surroundings(tmp_path):
        PageRun(page.relative_to(ROOT).as_posix(), tmp_path).run(read_blocks(page))
