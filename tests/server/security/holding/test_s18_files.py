"""S18: what is on the disk is for its owner alone."""

import ast
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.architecture.source_tree import ROOT, source_modules

from rota.errors import StoreUnavailableError
from rota.runtime.wiring import open_store
from rota.testing import a_job

WRITING = {"open", "mkdir", "makedirs", "mktemp", "write_text", "write_bytes", "chmod", "umask"}


def read_modes(folder: Path) -> dict[str, int]:
    return {it.name: stat.S_IMODE(it.stat().st_mode) for it in folder.iterdir()}


@pytest.fixture
def careless_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("careless_umask")
async def test_a_store_is_readable_by_its_owner_only_under_any_umask(tmp_path: Path) -> None:
    async with await open_store(f"sqlite:///{tmp_path / 'rota.db'}") as store:
        job = a_job()
        await store.insert([job], job.created_at)
        modes = read_modes(tmp_path)
    assert modes["rota.db"] == 0o600
    assert set(modes.values()) == {0o600}
    assert "rota.db-wal" in modes


async def test_no_directory_is_made_for_a_store(tmp_path: Path) -> None:
    """Its creator chooses its mode; the error says how."""
    with pytest.raises(StoreUnavailableError, match="mkdir -m 700"):
        await open_store(f"sqlite:///{tmp_path / 'missing' / 'rota.db'}")
    assert read_modes(tmp_path) == {}


def writing_calls(tree: ast.Module) -> list[str]:
    """Calls of ``open`` and of everything that makes a file or a directory."""
    names = [
        node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (isinstance(node.func, ast.Name) or getattr(node.func, "attr", "") != "open")
    ]
    return [name for name in names if name in WRITING]


def test_nothing_is_written_to_files_but_by_the_store() -> None:
    """No temporary file that others could put there first, no directory with a mode by chance."""
    apart = ("src/rota/testing/", "src/rota/cli/init.py")  # the latter writes a project on request
    ours = [m for m in source_modules() if not m.path.startswith(apart)]
    found = {module.path: writing_calls(module.tree) for module in ours}
    assert {path: calls for path, calls in found.items() if calls} == {}


def test_the_search_finds_what_writes() -> None:
    tree = ast.parse("open('x')\nPath('x').mkdir()\nos.umask(0)\nstore.open(x)\n")
    assert writing_calls(tree) == ["open", "mkdir", "umask"]


@pytest.mark.parametrize("path", sorted((ROOT / "deploy/systemd").glob("*")), ids=lambda p: p.name)
def test_units_keep_their_folder_to_themselves(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "UMask=0077" in text
    if "StateDirectory=" in text:
        assert "StateDirectoryMode=0700" in text


def test_the_container_keeps_its_folder_to_itself() -> None:
    text = (ROOT / "deploy/container/Dockerfile").read_text(encoding="utf-8")
    assert "--mode 0700 /var/lib/rota" in text
    assert re.search(r"^USER (?!root|0\b)", text, re.MULTILINE)
