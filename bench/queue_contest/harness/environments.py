"""Where the contestants live: an environment each in a cache folder, made on first use."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PEERS = Path(__file__).resolve().parents[1] / "peers"
NODE_PACKAGES = {
    "node": ["graphile-worker"],
    "bullmq": ["bullmq", "ioredis@5"],
    "agenda": ["agenda", "@agendajs/mongo-backend"],
    "pulse": ["@pulsecron/pulse", "tslib"],
}
REQUIREMENTS = {
    "rota": ["--editable", f"{ROOT}[postgres,redis]", "uvloop"],
    "pgqueuer": ["pgqueuer[asyncpg]", "asyncpg", "uvloop"],
    "procrastinate": ["procrastinate", "psycopg[binary,pool]"],
    "huey": ["huey"],
    "celery": ["celery[redis]", "hiredis"],
    "dramatiq": ["dramatiq[redis]", "hiredis"],
    "taskiq": ["taskiq", "taskiq-redis", "hiredis", "orjson", "uvloop"],
    "saq": ["saq[redis,hiredis]", "typing_extensions", "uvloop"],
    "arq": ["arq", "hiredis", "uvloop"],
    "mongo": ["--editable", f"{ROOT}[mongo]", "uvloop"],
    "mysql": ["--editable", f"{ROOT}[mysql]", "uvloop"],
}
SHOWN_PACKAGES = {
    "rota": ["rota", "asyncpg", "apsw", "redis", "msgspec", "uvloop"],
    "pgqueuer": ["pgqueuer", "asyncpg", "uvloop"],
    "procrastinate": ["procrastinate", "psycopg"],
    "huey": ["huey"],
    "celery": ["celery", "redis", "hiredis"],
    "dramatiq": ["dramatiq", "redis", "hiredis"],
    "taskiq": ["taskiq", "taskiq-redis", "redis", "hiredis", "uvloop"],
    "saq": ["saq", "redis", "hiredis", "uvloop"],
    "arq": ["arq", "redis", "hiredis", "uvloop"],
    "mongo": ["rota", "pymongo", "msgspec", "uvloop"],
    "mysql": ["rota", "asyncmy", "msgspec", "uvloop"],
}


class MissingError(Exception):
    """A contestant's environment cannot be made on this machine; its rows are left out."""


class Environments:
    """Virtual environments of one interpreter, and one folder of Node packages."""

    def __init__(self, cache: Path, python: str) -> None:
        self._python = python
        self._cache = cache / _ask(python, "import sys; print(sys.implementation.cache_tag)")
        self._cache.mkdir(parents=True, exist_ok=True)

    def modules(self, name: str) -> Path:
        """The folder from which Node finds the packages of an environment."""
        return self._cache / name

    def make(self, name: str) -> None:
        """Install what is missing; MissingError when that fails."""
        if name in NODE_PACKAGES:
            self._make_node(name)
        else:
            self._make_python(name)

    def command(self, environment: str, program: str) -> list[str]:
        """What runs a program of the working directory's ``peers``; a verb is added."""
        if environment in NODE_PACKAGES:
            return ["node", str(PEERS / program)]
        return [str(self._interpreter(environment)), str(PEERS / "start.py"), program]

    def pending_checks(self, checkout: Path) -> dict[str, str]:
        """By store, how another checkout of Rota asks whether a job is unfinished."""
        script = (
            "import json\n"
            "from bench.queue_contest.contestants import ROTA, list_contestants\n"
            "print(json.dumps({c.store: c.is_pending for c in list_contestants()"
            " if c.name == ROTA}))"
        )
        found: dict[str, str] = json.loads(_ask(self._python, script, folder=checkout))
        return found

    def versions(self, name: str) -> str:
        """Of the interpreter and the packages that matter."""
        if name in NODE_PACKAGES:
            package = NODE_PACKAGES[name][0]
            told = json.loads(
                (self.modules(name) / f"node_modules/{package}/package.json").read_text()
            )
            return f"{package} {told['version']}, Node {_output(['node', '--version'])}"
        script = (
            "import sys; from importlib.metadata import version\n"
            "print(', '.join(f'{name} {version(name)}' for name in sys.argv[1:]))"
        )
        return _ask(str(self._interpreter(name)), script, *SHOWN_PACKAGES[name])

    def describe_python(self) -> str:
        """The interpreter of all Python contestants; how it was built decides much."""
        script = (
            "import platform, timeit\n"
            "loop = min(timeit.repeat('for n in range(500000): t += n * n', 't = 0', number=1))\n"
            "print(platform.python_implementation(), platform.python_version()"
            " + f', a plain loop of 500,000 takes {loop * 1e3:.0f} ms')"
        )
        return _ask(self._python, script)

    def _interpreter(self, name: str) -> Path:
        return self._cache / name / ("Scripts" if os.name == "nt" else "bin") / "python"

    def _make_python(self, name: str) -> None:
        # Programs run with PYTHONPATH: an environment serves every checkout of Rota.
        stamp, wanted = self._cache / name / "installed", "\n".join(REQUIREMENTS[name])
        wanted = wanted.replace(str(ROOT), ".")
        if stamp.exists() and stamp.read_text() == wanted:
            return
        _run([self._python, "-m", "venv", "--clear", str(self._cache / name)], name)
        pip = [str(self._interpreter(name)), "-m", "pip", "install", "--quiet"]
        _run([*pip, *REQUIREMENTS[name]], name)
        stamp.write_text(wanted)

    def _make_node(self, name: str) -> None:
        for program in ("node", "npm"):
            if shutil.which(program) is None:
                raise MissingError(f"{program} is not installed")
        folder, packages = self.modules(name), NODE_PACKAGES[name]
        if (folder / "node_modules" / packages[0]).exists():
            return
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", *packages]
        _run(install, packages[0], folder=folder)


def default_cache() -> Path:
    """Where environments are kept between runs; never in the project's tree."""
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "rota-bench"


def _run(command: list[str], name: str, folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        raise MissingError(f"{name} cannot be installed: {last[0]}")


def _ask(python: str, script: str, *arguments: str, folder: Path | None = None) -> str:
    return _output([python, "-c", script, *arguments], folder)


def _output(command: list[str], folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def default_python() -> str:
    """The interpreter the harness runs on."""
    return sys.executable
