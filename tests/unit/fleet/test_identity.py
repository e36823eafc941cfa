import os
import subprocess
import sys

from rota.fleet.identity import GONE, process_started


def test_a_process_that_is_gone_has_no_start() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    assert child.wait() == 0
    assert process_started(child.pid) == GONE
    assert process_started(os.getpid()) == process_started(os.getpid())
