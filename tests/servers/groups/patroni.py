"""PostgreSQL under Patroni, with etcd and HAProxy: members that replace a primary that is gone.

All of it runs from one folder, on ports of this machine that were free, as another user than root.
"""

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.servers.binaries import find_installations, server_user
from tests.servers.postgres import PostgresServer, wait_for_server
from tests.servers.process import ServerProcess, free_port

SCOPE = "rota"
_FOLDERS = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
_PROGRAMS = ("patroni", "etcd", "haproxy", "setpriv")


def missing_programs() -> list[str]:
    """What this machine lacks for a Patroni cluster."""
    return [name for name in _PROGRAMS if shutil.which(name, path=_FOLDERS) is None]


def _run_as_other(*command: str) -> list[str]:
    user = server_user()
    program = str(shutil.which(command[0], path=_FOLDERS))
    if user is None:
        return [program, *command[1:]]
    identity = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    return [str(shutil.which("setpriv", path=_FOLDERS)), *identity, program, *command[1:]]


def _give_away(*paths: Path) -> None:
    user = server_user()
    if user is not None:
        for path in paths:
            os.chown(path, user.pw_uid, user.pw_gid)


def ask(port: int, path: str, body: dict[str, str] | None = None) -> Any:
    """What the REST interface of a member or of etcd answers; None without an answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = Request(f"http://127.0.0.1:{port}{path}", data, headers)
    with suppress(OSError, ValueError), urlopen(request, timeout=30) as answer:  # noqa: S310 - http
        text = answer.read().decode()
        return json.loads(text) if text.startswith("{") else text
    return None


class Etcd(ServerProcess):
    def __init__(self, folder: Path) -> None:
        super().__init__("etcd", folder)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def create(self) -> None:
        super().create()
        (self.folder / "kept").mkdir(mode=0o700)
        _give_away(self.folder, self.folder / "kept")

    def _command(self) -> Sequence[str]:
        peer = f"http://127.0.0.1:{free_port()}"
        return _run_as_other(
            "etcd",
            *("--data-dir", str(self.folder / "kept"), "--log-level", "error"),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
            *("--heartbeat-interval", "500", "--election-timeout", "5000"),
        )

    def _answers(self) -> bool:
        answer = ask(self.port, "/health")
        return isinstance(answer, dict) and answer.get("health") == "true"


class Member(ServerProcess):
    """Patroni and the PostgreSQL server that it manages."""

    def __init__(self, folder: Path, etcd: Etcd, rules: dict[str, Any]) -> None:
        super().__init__("Patroni", folder)
        self._etcd = etcd
        self._rules = rules
        self.postgres = PostgresServer(find_installations()[0], folder)

    @property
    def url(self) -> str:
        return f"postgresql://rota@127.0.0.1:{self.server_port}/postgres"

    @property
    def server_port(self) -> int:
        return int((self.folder / "server_port").read_text())

    def create(self) -> None:
        super().create()
        (self.folder / "server_port").write_text(str(free_port()))
        (self.folder / "patroni.json").write_text(json.dumps(self._settings()))
        _give_away(self.folder, self.folder / "patroni.json")

    def kill_everything(self) -> None:
        """Patroni first: it would start the server again."""
        self.kill()
        self.postgres.kill()

    def remove(self) -> None:
        self.kill_everything()
        super().remove()

    def _settings(self) -> dict[str, Any]:
        """As YAML, of which JSON is a part."""
        trusted = ["local all all trust", "host all all 127.0.0.1/32 trust"]
        trusted.append("host replication all 127.0.0.1/32 trust")
        rest, server = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.server_port}"
        return {
            "scope": SCOPE,
            "name": self.folder.name,
            "restapi": {"listen": rest, "connect_address": rest},
            "etcd3": {"host": f"127.0.0.1:{self._etcd.port}"},
            "bootstrap": {"dcs": self._rules, "initdb": [{"encoding": "UTF8"}, {"locale": "C"}]},
            "postgresql": {
                "listen": server,
                "connect_address": server,
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(find_installations()[0].folder),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {
                    name: {"username": "rota"} for name in ("superuser", "replication", "rewind")
                },
                "pg_hba": trusted,
                "parameters": {"unix_socket_directories": str(self.folder)},
            },
        }

    def _command(self) -> Sequence[str]:
        return _run_as_other("patroni", str(self.folder / "patroni.json"))

    def _answers(self) -> bool:
        return ask(self.port, "/patroni") is not None


class Haproxy(ServerProcess):
    """Leads to the primary, as the members themselves say which one that is."""

    def __init__(self, folder: Path, members: Sequence[Member]) -> None:
        super().__init__("HAProxy", folder)
        self._members = members

    @property
    def url(self) -> str:
        return f"postgresql://rota@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        super().create()
        servers = [
            f"server {it.folder.name} 127.0.0.1:{it.server_port} check port {it.port}"
            for it in self._members
        ]
        lines = [
            *("defaults", "mode tcp", "timeout connect 2s", "timeout client 30m"),
            *("timeout server 30m", "timeout check 5s", "listen primary"),
            f"bind 127.0.0.1:{self.port}",
            *("option httpchk OPTIONS /primary", "http-check expect status 200"),
            "default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions",
            *servers,
        ]
        (self.folder / "haproxy.cfg").write_text("\n".join([*lines, ""]))
        _give_away(self.folder, self.folder / "haproxy.cfg")

    def _command(self) -> Sequence[str]:
        return _run_as_other("haproxy", "-db", "-f", str(self.folder / "haproxy.cfg"))

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


class PatroniCluster:
    """Members with etcd and HAProxy, below one folder."""

    def __init__(self, folder: Path, member_count: int, *, is_synchronous: bool) -> None:
        self._etcd = Etcd(folder / "etcd")
        rules = _rules(is_synchronous=is_synchronous)
        names = [f"member{number + 1}" for number in range(member_count)]
        self.members = [Member(folder / name, self._etcd, rules) for name in names]
        self._haproxy = Haproxy(folder / "haproxy", self.members)
        self._standby_role = "sync_standby" if is_synchronous else "replica"

    @property
    def url(self) -> str:
        """Through HAProxy."""
        return self._haproxy.url

    @property
    def members_url(self) -> str:
        """With all servers in one address."""
        places = ",".join(f"127.0.0.1:{member.server_port}" for member in self.members)
        return f"postgresql://rota@{places}/postgres"

    def start(self) -> None:
        """Start everything; returns when there is a primary with its standbys."""
        for each in (self._etcd, *self.members, self._haproxy):
            each.create()
            each.start()
            if each is self.members[0]:
                self._wait(lambda: self._find("leader") is not None, "there is no primary")
        self.wait_until_whole()

    def find_leader(self) -> Member | None:
        """The primary, if the members know one that works."""
        return self._find("leader")

    def wait_for_leader(self, suits: Callable[[Member], bool]) -> None:
        """Return when there is a primary that suits."""

        def is_there() -> bool:
            leader = self.find_leader()
            return leader is not None and suits(leader)

        self._wait(is_there, "there is no new primary")

    def wait_until_whole(self) -> None:
        """Return when one member leads and every other one follows it."""
        self._wait(self._is_whole, "the cluster does not become whole")

    def switch_over(self, leader: Member) -> None:
        """Have the primary hand over to a standby, as for maintenance.

        A member refuses while it is busy with its turn; then it is asked again.
        """

        def has_ended() -> bool:
            if self.find_leader() not in (None, leader):
                return True
            ask(leader.port, "/switchover", {"leader": leader.folder.name})
            return False

        self._wait(has_ended, "the primary does not hand over")

    def stop(self) -> None:
        """End everything and leave nothing on the disk."""
        for each in (self._haproxy, *self.members, self._etcd):
            with suppress(FileNotFoundError):
                each.remove()

    def _is_whole(self) -> bool:
        states = [(one["role"], one["state"]) for one in self._ask_members()]
        standbys = [state for role, state in states if role != "leader"]
        roles = [role for role, _ in states]
        return (
            len(states) == len(self.members)
            and ("leader", "running") in states
            and all(state in ("running", "streaming") for state in standbys)
            and self._standby_role in roles
            and all(one.get("lag", 0) == 0 for one in self._ask_members())
        )

    def _find(self, role: str) -> Member | None:
        names = [one["name"] for one in self._ask_members() if one["role"] == role]
        return next((each for each in self.members if each.folder.name in names), None)

    def _ask_members(self) -> list[dict[str, Any]]:
        """What the first member that answers says about all of them."""
        for member in self.members:
            if (member.folder / "port").exists() and member.process_id is not None:
                answer = ask(member.port, "/cluster")
                if isinstance(answer, dict):
                    return list(answer.get("members", ()))
        return []

    def _wait(self, condition: Callable[[], bool], complaint: str) -> None:
        wait_for_server(condition, lambda: f"{complaint}: {self._ask_members()}")


def _rules(*, is_synchronous: bool) -> dict[str, Any]:
    """How the members decide. A server that died is replaced, not started again."""
    return {
        "ttl": 20,
        "loop_wait": 2,
        "retry_timeout": 8,
        "primary_start_timeout": 0,
        "maximum_lag_on_failover": 1 << 30,
        "synchronous_mode": is_synchronous,
        "postgresql": {
            "use_pg_rewind": True,
            "use_slots": True,
            "parameters": {
                "wal_log_hints": "on",
                "max_connections": 60,
                "shared_buffers": "32MB",
                "wal_keep_size": "256MB",
            },
        },
    }


@cache
def versions() -> str:
    """What takes part, for a report."""
    said = {}
    for name, option in (("patroni", "--version"), ("etcd", "--version"), ("haproxy", "-v")):
        program = shutil.which(name, path=_FOLDERS)
        if program:
            told = subprocess.run([program, option], capture_output=True, check=False, text=True)
            said[name] = told.stdout.splitlines()[0].strip()
    return ", ".join(said.values())
