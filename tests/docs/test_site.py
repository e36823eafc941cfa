"""The documentation can be built, asks no other host for anything, and keeps its own rules."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.environment import ROOT

DECISIONS = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
CHANGES = sorted((ROOT / "changelog.d").iterdir())
_LOADED = re.compile(
    r"<(?:script|img|link|iframe|source)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>"
)


SEARCHED = {
    "apscheduler": "guide/coming-from-apscheduler.html",
    "celery": "guide/coming-from-celery.html",
    "cron": "guide/coming-from-cron.html",
    "django": "guide/django.html",
    "enqueue": "guide/your-first-job.html",
    "flask": "guide/flask-and-scripts.html",
    "quickstart": "guide/your-first-job.html",
    "result": "guide/your-first-job.html",
    "retry": "guide/retries-and-failures.html",
    "workflow": "guide/flows.html",
}
"""What people search for, and a page that must be among the answers."""


def found_pages(index: Path, word: str) -> set[str]:
    """The pages that the site's search knows under a word."""
    documents = json.loads(index.read_text(encoding="utf-8"))["docs"]
    wanted = re.compile(rf"\b{word}", re.IGNORECASE)
    return {
        str(each["location"]).split("#")[0]
        for each in documents
        if wanted.search(f"{each['title']} {each['text']}")
    }


def foreign_assets(html: str) -> list[str]:
    """The tags of a page that load something from another host; plain links do not."""
    return [tag for tag in _LOADED.findall(html) if 'rel="canonical"' not in tag]


def test_the_site_builds_stands_alone_and_can_be_searched(tmp_path: Path) -> None:
    """One build for all that is asked of it: it takes its time."""
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 10
    assert [found for page in pages for found in foreign_assets(page.read_text("utf-8"))] == []
    index = tmp_path / "search/search_index.json"
    found = {word: page in found_pages(index, word) for word, page in SEARCHED.items()}
    assert found == dict.fromkeys(SEARCHED, True)
    app = (tmp_path / "reference/api/app.html").read_text("utf-8")
    assert re.search(r"enqueue_many.{0,900}calls", app, re.DOTALL), "signatures are not shown"


def test_foreign_assets_are_found() -> None:
    html = '<script src="https://example.com/x.js"></script><a href="https://example.com">b</a>'
    assert len(foreign_assets(html)) == 1


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_is_short_and_says_what_it_costs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 40
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Choice", "Price"]
    assert text.startswith(f"# {path.stem[:4]} ")


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    numbers = [int(path.stem[:4]) for path in DECISIONS]
    listed = (ROOT / "docs/decisions/index.md").read_text(encoding="utf-8")
    assert numbers == list(range(1, len(numbers) + 1))
    assert [path.name for path in DECISIONS if f"]({path.name})" not in listed] == []


@pytest.mark.parametrize("path", CHANGES, ids=lambda path: path.stem)
def test_a_change_is_one_sentence(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.fullmatch(r"[`A-Z](?:[^.\n]|\.(?=\S))*\.\n", text)
