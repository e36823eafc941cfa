"""``rota init``: the project is written, its tests pass, and its files are valid."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped] # its stubs are not among the requirements
from tests.unit.cli.conftest import RunRota

from rota.cli.commands import app


def test_the_project_is_written_once_and_its_own_tests_pass(
    rota: RunRota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = rota("init", "shop")
    assert found.status == 0
    assert "rota up tasks:app --reload" in found.out
    written = {"tasks.py", "test_tasks.py", "requirements.txt", "Dockerfile", "compose.yaml"}
    assert {path.name for path in (tmp_path / "shop").iterdir()} == written | {".dockerignore"}
    compose = yaml.safe_load((tmp_path / "shop/compose.yaml").read_text("utf-8"))
    for service in ("web", "worker"):
        program, *words = compose["services"][service]["command"]
        command, _, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        assert (program, command.__name__) == ("rota", words[0])
    again = rota("init", "shop")
    assert again.status == 2
    assert "tasks.py exists already: name another directory" in again.err
    assert rota("init", "shop/tasks.py").status == 2
    own = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path / "shop",
        env=own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in run.stdout, run.stdout + run.stderr
