"""S19: what is installed, and what is served, is what somebody has looked at."""

import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from tests.architecture.source_tree import ROOT

PIN_FILES = sorted((ROOT / "requirements").glob("*.txt"))
HTMX = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
"""Of htmx 2.0.11, minified; another version is looked at before it is put here."""

OURS = {"icon.svg", "icon-192.png", "icon-512.png", "pages.css", "pages.js", "job.js"}
STATIC = {"htmx.min.js", "htmx-LICENSE.txt", "service-worker.js", *OURS}


@pytest.mark.parametrize("path", PIN_FILES, ids=lambda it: it.name)
def test_everything_that_is_installed_is_pinned_with_hashes(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert lines
    for line in lines:
        assert re.match(r"[A-Za-z0-9._-]+(\[[\w,-]+\])?==\S+", line), line
        assert "--hash=sha256:" in line, line
        assert "://" not in line, line


def test_the_container_installs_wheels_by_their_hashes_only() -> None:
    text = (ROOT / "deploy/container/Dockerfile").read_text(encoding="utf-8")
    assert "--require-hashes --only-binary :all:" in text
    assert "--require-hashes" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_few_packages_are_needed_to_run() -> None:
    pins = (ROOT / "requirements/runtime.txt").read_text(encoding="utf-8")
    assert len(re.findall(r"^[A-Za-z0-9._-]+==", pins, re.MULTILINE)) <= 40


def test_the_only_foreign_script_is_the_one_that_was_looked_at() -> None:
    folder = ROOT / "src/rota/server/pages/static"
    assert {path.name for path in folder.iterdir()} == STATIC
    assert sha256((folder / "htmx.min.js").read_bytes()).hexdigest() == HTMX


def test_a_bill_of_materials_names_all_of_it() -> None:
    printed = subprocess.run(
        [sys.executable, str(ROOT / "deploy/sbom.py")], capture_output=True, text=True, check=True
    )
    document = json.loads(printed.stdout)
    pins = (ROOT / "requirements/runtime.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", pins, re.MULTILINE))
    named = {it["name"]: it for it in document["components"]}
    assert {name: it["version"] for name, it in named.items()} == {**pinned, "htmx.org": "2.0.11"}
    for component in document["components"]:
        (reference,) = component["externalReferences"]
        assert reference["hashes"]
    assert named["htmx.org"]["externalReferences"][0]["hashes"][0]["content"] == HTMX
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
