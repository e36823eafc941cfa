"""``python -m rota`` is the program ``rota`` of this interpreter."""

import sys

from rota.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
