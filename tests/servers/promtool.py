"""Prometheus' promtool: that of this machine, or Debian's package, unpacked beside the tests."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PACKAGE = "prometheus"
KEPT_IN = Path(sys.prefix) / "share" / "rota-tests"
"""In the environment of the tests: not in the tree, and removed with the environment."""


def find_promtool() -> str:
    """The program. Skips the test where there is none; fails in CI if there could be one."""
    found = shutil.which("promtool") or shutil.which(str(KEPT_IN / "promtool"))
    if found is not None:
        return found
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip("there is no promtool on this machine, and no Debian package for it")
    try:
        return _unpack()
    except (OSError, subprocess.SubprocessError) as error:
        refuse = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        refuse(f"there is no promtool on this machine, and its package cannot be had: {error}")


def _unpack() -> str:
    KEPT_IN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=KEPT_IN) as name:
        folder = Path(name)
        _run("apt-get", "download", "-qq", PACKAGE, folder=folder)
        (package,) = folder.glob("*.deb")
        _run("dpkg", "-x", package.name, "unpacked", folder=folder)
        target = KEPT_IN / "promtool"
        (folder / "unpacked/usr/bin/promtool").replace(target)  # another test may do the same
    return str(target)


def _run(*command: str, folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
