"""Rota's API beside a bare Starlette with asyncpg: requests per second, with a million jobs kept.

    python bench/api.py --quick              # 50,000 jobs, about two minutes
    python bench/api.py                      # 1,000,000 jobs, about eight

One server process on a PostgreSQL of its own; this process asks it over kept connections.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from bench.api_contest.command import main

    main()
