"""Rota beside other job queues, store by store: enqueue, drain, latency, idle cost.

    python bench/queue.py --quick            # about five minutes
    python bench/queue.py                    # about twenty
    python bench/queue.py --flat             # lease and settle beside three million other jobs
    python bench/queue.py --crowd 4000       # 1, 4, 8 and 16 workers, batches of ten

Its parts are in queue_contest. A script has its own folder first on its path, where this file would
pass for the standard library's ``queue``: asked for by that name, it steps aside.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent


def step_aside() -> None:
    """Put the module of the same name that others mean in the place of this one."""
    elsewhere = [entry for entry in sys.path if Path(entry).resolve() != HERE]
    spec = PathFinder.find_spec(__name__, elsewhere)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"No module named {__name__!r}", name=__name__)
    meant = module_from_spec(spec)
    sys.modules[__name__] = meant
    spec.loader.exec_module(meant)


if __name__ == "queue":
    step_aside()
elif __name__ == "__main__":
    sys.path[0] = str(HERE.parent)
    from bench.queue_contest.command import main

    main()
