"""What every page and example runs in: one zone, one language, one width, whatever the machine."""

import doctest
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PINNED = {
    "COLUMNS": "100",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "LINES": "40",
    "NO_COLOR": "1",
    "PYTHONUTF8": "1",
    "TERM": "dumb",
    "TZ": "UTC",
}


@contextmanager
def pinned_environment(folder: Path) -> Iterator[None]:
    """Run the body in ``folder``, in UTC; all is as before afterwards."""
    kept = dict(os.environ)
    came_from = Path.cwd()
    os.environ.update(PINNED)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    for name in filter(_would_be_obeyed, kept):
        del os.environ[name]
    time.tzset()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(came_from)
        os.environ.clear()
        os.environ.update(kept)
        time.tzset()


def _would_be_obeyed(name: str) -> bool:
    """Whether it is a setting of this user's environment that pages must not see."""
    is_ours = name.startswith(("ROTA_", "WORKER_")) and not name.startswith("ROTA_TEST_")
    return is_ours or name == "FORCE_COLOR"


def check_output(want: str, got: str, where: str) -> None:
    """Compare what is printed with what the page shows; ``...`` stands for anything."""
    want, got = _without_trailing_blanks(want), _without_trailing_blanks(got)
    if not doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS):
        raise AssertionError(f"{where} shows:\n{want}\nbut this was printed:\n{got}")


def _without_trailing_blanks(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())
