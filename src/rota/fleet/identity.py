"""The identity of a process: its name, its host, and whether it still exists."""

import os
import secrets
import socket
from pathlib import Path

_LONGEST_HOST = 60

GONE = "gone"
"""What ``process_started`` returns for a process that does not exist."""


def make_process_name() -> str:
    """A unique name: host and process id for people, and a random part, as both are reused."""
    host = "".join(it for it in socket.gethostname() if it.isprintable())[:_LONGEST_HOST]
    return f"{host or 'host'}:{os.getpid()}:{secrets.token_hex(4)}"


def _name_host() -> str:
    namespace = Path("/proc/self/ns/pid")
    return f"{socket.gethostname()} {namespace.readlink() if namespace.is_symlink() else ''}"


HOST = _name_host()
"""This host and its pid namespace: process ids are comparable only where both are the same."""


def process_started(process_id: int) -> str:
    """A mark that differs when a process id is reused; ``GONE`` if there is no such process."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_bytes()
    except OSError:
        return "running" if not Path("/proc/self/stat").exists() and _exists(process_id) else GONE
    state, *fields = status.rpartition(b") ")[2].split()
    return GONE if state in b"ZX" else fields[18].decode()


def _exists(process_id: int) -> bool:
    """Whether a signal could be sent; for hosts without /proc."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
