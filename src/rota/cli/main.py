"""The program ``rota``. Answers ``--version`` before anything heavy is imported."""

import gc
import sys
from collections.abc import Sequence

from rota import __version__


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command line, by default that of this process, and return its exit status."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    if tokens == ["--version"]:
        print(__version__)
        return 0
    gc.disable()  # loading makes no garbage, but much to search for it
    try:
        from rota.cli.dispatch import run_command  # noqa: PLC0415 - loads cyclopts and rich

        return run_command(tokens)
    finally:
        gc.enable()
