"""Type checkers accept right calls of a task and refuse each wrong one."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import ROOT

SNIPPETS = ROOT / "tests/typing/snippets"
MARK = "# error"


def test_mypy_refuses_the_wrong_calls_and_no_other() -> None:
    files = sorted(str(path) for path in SNIPPETS.glob("*.py"))
    said = _run("mypy", "--strict", "--no-color-output", *files)
    found = re.findall(r"^(.+\.py):(\d+): error:", said, re.MULTILINE)
    assert {(Path(file).name, int(line)) for file, line in found} == _wrong_lines(), said


def test_pyright_refuses_the_wrong_calls_and_no_other() -> None:
    said = _run("pyright", "--outputjson", "--pythonpath", sys.executable, str(SNIPPETS))
    found = [it for it in json.loads(said)["generalDiagnostics"] if it["severity"] == "error"]
    places = {(Path(it["file"]).name, it["range"]["start"]["line"] + 1) for it in found}
    assert places == _wrong_lines(), said


def test_the_project_of_rota_init_is_typed(tmp_path: Path) -> None:
    for name in ("tasks.py", "test_tasks.py"):
        text = (ROOT / f"src/rota/cli/project/{name}.txt").read_text(encoding="utf-8")
        (tmp_path / name).write_text(text, encoding="utf-8")
    files = [str(tmp_path / "tasks.py"), str(tmp_path / "test_tasks.py")]
    assert "Success: no issues found" in _run("mypy", "--strict", *files)


def _run(program: str, *arguments: str) -> str:
    path = Path(sys.executable).with_name(program)
    ended = subprocess.run(
        [str(path), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.stdout, ended.stderr
    return ended.stdout


def _wrong_lines() -> set[tuple[str, int]]:
    return {
        (path.name, number)
        for path in SNIPPETS.glob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if line.endswith(MARK)
    }
