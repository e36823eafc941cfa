"""``rota`` processes for tests: started in a folder of their own, read line by line, and ended."""

import json
import os
import queue
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[3]
ROTA = str(Path(sys.executable).with_name("rota"))
PATIENCE_SECONDS = 120
_UNSET = ("ROTA_STORE", "ROTA_URL", "ROTA_TOKEN", "ROTA_HOST", "ROTA_PORT")


def environment_with(**given: str) -> dict[str, str]:
    """The environment of a program. It finds the modules of the tests, and what these find."""
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**kept, "PYTHONUNBUFFERED": "1", "TZ": "UTC", **given}


def run_rota(
    folder: Path, *argv: str, program: str = ROTA, **environ: str
) -> "subprocess.CompletedProcess[str]":
    """One command, to its end."""
    return subprocess.run(
        [program, *argv],
        cwd=folder,
        env=environment_with(**environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


class Running:
    """A command that runs until it is stopped."""

    def __init__(self, folder: Path, *argv: str, program: str = ROTA, **environ: str) -> None:
        self.printed: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            [program, *argv],
            cwd=folder,
            env=environment_with(**environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def wait_for(self, wanted: str) -> str:
        """The first line from now on in which the text is found."""
        while True:
            line = self._lines.get(timeout=PATIENCE_SECONDS)
            if line is None:
                raise AssertionError(f"{wanted!r} was never printed: {self.printed}")
            if wanted in line:
                return line

    def stop(self, number: int) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Its exit status, once all it printed was read."""
        status = self.process.wait(timeout=PATIENCE_SECONDS)
        while self._lines.get(timeout=PATIENCE_SECONDS) is not None:
            pass
        return status

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line.rstrip("\n"))
            self._lines.put(line)
        self._lines.put(None)


class Up(Running):
    """``rota up`` or ``rota serve`` on a free port; ``token`` is the one it printed, if any."""

    def __init__(self, folder: Path, *argv: str, program: str = ROTA, **environ: str) -> None:
        super().__init__(folder, *argv, "--port", "0", program=program, **environ)
        self.token: str | None = None
        try:
            self.url = self.wait_for("Pages: ").split("Pages: ")[1].strip().removesuffix("/admin")
            self.wait_for("API: ")
        except BaseException:
            self.__exit__()
            raise

    def read_token(self) -> str:
        self.token = self.wait_for("First token: ").split("First token: ")[1].strip()
        assert re.fullmatch(r"rota_\w{49}", self.token)
        return self.token

    def ask(self, path: str, body: Any = None, method: str | None = None) -> tuple[int, Any]:
        """The status, and the body: parsed where it is JSON."""
        headers = {"content-type": "application/json"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - an http URL of our own
            f"{self.url}{path}", sent, headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - as above
                return response.status, _decode(response.read())
        except urllib.error.HTTPError as error:
            return error.code, _decode(error.read())


def _decode(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode()
