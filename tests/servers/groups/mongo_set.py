"""A replica set of several MongoDB servers, whose primary can be taken away."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError
from tests.servers.mongo import REPLICA_SET, MongoServer, find_mongod
from tests.servers.postgres import wait_for_server
from tests.servers.process import ServerProcess
from tests.servers.shared import do_without_mongo, run_folder

PRIMARY, SECONDARY = 1, 2
QUICK_ELECTIONS = {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500}


class MongoMember(MongoServer):
    """A server that is one of several members; ``runner`` is a command that runs its program."""

    def __init__(
        self, program: Path, folder: Path, host: str = "127.0.0.1", runner: Sequence[str] = ()
    ) -> None:
        super().__init__(program, folder)
        self.host = host
        self._runner = runner

    def start(self) -> None:
        """Start and wait until it answers; the set decides what it is."""
        ServerProcess.start(self)

    def hold_up(self) -> None:
        """Let it do nothing, while its connections stay open."""
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it continue after ``hold_up``."""
        self._send(signal.SIGCONT)

    def ask(self, *command: Any, **options: Any) -> dict[str, Any]:
        """The answer of this member, and of no other."""
        client: MongoClient[dict[str, Any]] = MongoClient(
            self.direct_url, serverSelectionTimeoutMS=2000, socketTimeoutMS=5000
        )
        with client:
            return dict(client.admin.command(*command, **options))

    def _command(self) -> Sequence[str]:
        return [*self._runner, *super()._command()]

    def _send(self, number: signal.Signals) -> None:
        process_id = self.process_id
        assert process_id is not None
        os.kill(process_id, number)


class MongoSet:
    """The members of a replica set."""

    def __init__(self, members: Sequence[MongoMember]) -> None:
        self.members = members

    @property
    def url(self) -> str:
        """An address that names all members."""
        hosts = ",".join(f"{each.host}:{each.port}" for each in self.members)
        return f"mongodb://{hosts}/?replicaSet={REPLICA_SET}"

    def initiate(self, settings: dict[str, int]) -> None:
        """Make the members a set, with a primary."""
        members = [
            {"_id": number, "host": f"{each.host}:{each.port}"}
            for number, each in enumerate(self.members)
        ]
        config = {"_id": REPLICA_SET, "members": members, "settings": settings}
        self.members[0].ask("replSetInitiate", config)
        self.await_whole()

    def find_primary(self, *, without: MongoMember | None = None) -> MongoMember:
        """The member that takes writes, once there is one."""
        found: list[MongoMember] = []

        def is_found() -> bool:
            others = [each for each in self.members if each is not without]
            found[:] = [each for each in others if _is_primary(each)]
            return bool(found)

        wait_for_server(is_found, lambda: "the set has no primary")
        return found[0]

    def step_down(self) -> None:
        """Have the primary give way to another member."""
        primary = self.find_primary()
        with suppress(AutoReconnect):
            try:
                primary.ask("replSetStepDown", 10, secondaryCatchUpPeriodSecs=5)
            except OperationFailure as error:
                if not error.has_error_label("RetryableWriteError") and error.code not in (
                    262,
                    189,
                ):
                    raise

    def await_whole(self) -> None:
        """Return when there is a primary, and all others follow it."""
        wait_for_server(self._is_whole, lambda: "the set is not whole")

    def _is_whole(self) -> bool:
        try:
            states = sorted(each.ask("replSetGetStatus")["myState"] for each in self.members)
        except PyMongoError:
            return False
        return states == [PRIMARY, *[SECONDARY] * (len(self.members) - 1)]


def _is_primary(member: MongoMember) -> bool:
    if member.process_id is None:
        return False
    try:
        return bool(member.ask("hello")["isWritablePrimary"])
    except PyMongoError:
        return False


@contextmanager
def new_mongo_set(
    hosts: Sequence[tuple[str, Sequence[str]]] = (("127.0.0.1", ()),) * 3,
    settings: dict[str, int] = QUICK_ELECTIONS,
) -> Iterator[MongoSet]:
    """A set with a member for each host and the command that runs programs there."""
    program = find_mongod()
    if program is None:
        do_without_mongo()
    folders = [run_folder() / f"mongo-member-{token_hex(4)}" for _ in hosts]
    members = [
        MongoMember(program, folder, *place) for folder, place in zip(folders, hosts, strict=True)
    ]
    try:
        for member in members:
            member.create()
            member.start()
        group = MongoSet(members)
        group.initiate(settings)
        yield group
    finally:
        for member in members:
            member.remove()
