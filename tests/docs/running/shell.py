"""Shell blocks: commands as a reader types them, with curl and jq, one after the other."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.docs.running.services import Services

_PRELUDE = """
set -euo pipefail
if [ -e .page/functions ]; then . .page/functions; fi
trap 'declare -f > .page/functions; env -0 > .page/exported' EXIT
"""
_CURL_SETTINGS = "fail-with-body\nmax-time = 60\n"
"""An answer that is an error fails the block, unless what it prints is shown."""

_NEEDED = re.compile(r"\b(curl|jq|node)\b")
_OWN_OF_THE_SHELL = {"_", "PWD", "OLDPWD", "SHLVL"}


def run_shell(text: str, folder: Path, services: Services, *, is_shown: bool, where: str) -> str:
    """Run one block; what it exports and its functions are there for the blocks that follow."""
    _require({*_NEEDED.findall(text), "bash"})
    kept = folder / ".page"
    kept.mkdir(exist_ok=True)
    (kept / ".curlrc").write_text(_CURL_SETTINGS, encoding="utf-8")
    done = subprocess.run(
        ["bash", "-c", _PRELUDE + services.put_in_address(text)],
        cwd=folder,
        env={**os.environ, "CURL_HOME": str(kept)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    _take_over(kept / "exported")
    if done.returncode and not is_shown:
        raise AssertionError(f"{where} ends with {done.returncode}:\n{done.stdout}{done.stderr}")
    return services.leave_out_address(done.stdout)


def _require(programs: set[str]) -> None:
    missing = sorted(name for name in programs if shutil.which(name) is None)
    if missing and os.environ.get("CI"):
        pytest.fail(f"cannot be left out in CI, and this machine has no {', '.join(missing)}")
    if missing:
        pytest.skip(f"THIS PAGE WAS NOT RUN TO ITS END: there is no {', '.join(missing)} here")


def _take_over(exported: Path) -> None:
    """Commands in console blocks see what was exported, too."""
    pairs = (each.partition("=") for each in exported.read_text(encoding="utf-8").split("\0"))
    os.environ.update(
        {
            name: value
            for name, _, value in pairs
            if name and name not in _OWN_OF_THE_SHELL and name != "CURL_HOME"
        }
    )
