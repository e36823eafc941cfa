"""The services that a page starts: ``rota up``, ``serve`` and ``work``, as real processes."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

from tests.docs.environment import check_output

SHOWN_ADDRESS = "127.0.0.1:8080"
"""What pages show. The service listens on a port that is free, and this is put in its place."""
SHOWN_TOKEN = "rota_…"  # noqa: S105 - it stands for one

PATIENCE_SECONDS = 30
_TOKEN = re.compile(r"rota_[0-9A-Za-z]{49}")
_TIME = re.compile(r"^\d\d:\d\d:\d\dZ", re.MULTILINE)


class Services:
    """What a page has running; a later command that runs on takes the place of an earlier one."""

    def __init__(self, folder: Path, program: Path | None = None) -> None:
        self._folder = folder
        self._program = program or Path(sys.executable).with_name("rota")
        self._process: subprocess.Popen[str] | None = None
        self._lines: Queue[str | None] = Queue()
        self._address = SHOWN_ADDRESS
        self._token = SHOWN_TOKEN

    def start(self, arguments: Sequence[str], shown: str, where: str) -> None:
        """Start one, and wait until it has printed what is shown."""
        if not shown.strip():
            raise ValueError(f"{where}: a command that runs on has to show what it prints")
        self.stop()
        self._start(arguments)
        printed = ""
        while not self._is_shown(shown, printed):
            line = self._next_line(where, printed)
            printed += line
            self._note_address(line)
            self.note_token(line)

    def stop(self) -> None:
        """Interrupt what runs, as a reader does, and see it end well."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGINT)
        try:
            status = process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()  # if it would not end
        if status:
            raise AssertionError(f"the service ended with {status} after ctrl-C")

    def put_in_address(self, text: str) -> str:
        """A command as it has to be, for the service that runs here."""
        return text.replace(SHOWN_ADDRESS, self._address).replace(SHOWN_TOKEN, self._token)

    def leave_out_address(self, text: str) -> str:
        """What was printed, as pages show it."""
        return _TOKEN.sub(SHOWN_TOKEN, text.replace(self._address, SHOWN_ADDRESS))

    def note_token(self, printed: str) -> None:
        """Remember the token that a command has shown, for the commands that follow."""
        token = _TOKEN.search(printed)
        self._token = token[0] if token else self._token

    def _start(self, arguments: Sequence[str]) -> None:
        self._lines = Queue()
        self._process = subprocess.Popen(
            [self._program, *arguments],
            cwd=self._folder,
            env={**os.environ, "ROTA_PORT": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        Thread(target=_pass_on, args=(self._process, self._lines.put), daemon=True).start()

    def _note_address(self, line: str) -> None:
        address = re.search(r"http://(127\.0\.0\.1:\d+)", line)
        self._address = address[1] if address else self._address

    def _next_line(self, where: str, printed: str) -> str:
        with suppress(Empty):
            line = self._lines.get(timeout=PATIENCE_SECONDS)
            if line is not None:
                return line
        self._give_up()
        shown = self.leave_out_address(printed)
        raise AssertionError(f"{where}: all that was printed is:\n{shown}")

    def _give_up(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)
        self._process = None

    def _is_shown(self, shown: str, printed: str) -> bool:
        """Whether it begins with what is shown.

        A line ``...`` stands for lines in between, or none: what runs at the same time comes in any
        order.
        """
        want = _TIME.sub("at", f"{shown.rstrip()}\n...").replace("\n...\n", "...\n")
        got = _TIME.sub("at", self.leave_out_address(f"{printed}and more\n"))
        with suppress(AssertionError):
            check_output(want, got, "")
            return True
        return False


def _pass_on(process: "subprocess.Popen[str]", put: Callable[[str | None], object]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            put(line)
    put(None)
