"""What a driver sees of a replica set, in front of one server that is none.

Two ports pass for its two members. Each says of itself, when greeted, what a member of a replica
set says: its name, who else there is, and which of them is the primary. Only the primary carries
out commands; the other refuses them as MongoDB documents it. Both lead to the same server, so that
this is no replication: nothing can be behind, and nothing is rolled back. What it is good for is
all that happens on the client's side when the primary is another one than before.

As a set does, it knows the retryable writes that were carried out, whichever member was asked: one
that is sent again is not done again, but answered as the first time.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bson import ObjectId
from tests.unit.stores.mongo.replicas.wire_messages import (
    Message,
    answer,
    read_document,
    receive,
    send,
    without,
)

SET_NAME = "front"
WRITES = frozenset({"insert", "update", "delete", "findAndModify"})

_GREETINGS = frozenset({"hello", "isMaster", "ismaster"})
_FOR_ANY_MEMBER = frozenset({"ping", "buildInfo", "endSessions"})
_REFUSED_WRITE = {"code": 10107, "codeName": "NotWritablePrimary", "errmsg": "not primary"}
_REFUSED_READ = {
    "code": 13435,
    "codeName": "NotPrimaryNoSecondaryOk",
    "errmsg": "not primary and secondaryOk=false",
}


class ReplicaFront:
    """Two members, of which the first is the primary to begin with."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._members = [_Member(), _Member()]
        self._lock = threading.Lock()
        self._primary: int | None = 0
        self._term = 1
        self._known: dict[tuple[bytes, int], dict[str, Any]] = {}
        self._last_words: tuple[int, bool] | None = None
        self.write_count = 0
        """How many writes have come to a primary."""
        self.repeated_count = 0
        """How many of those were known already."""

    @property
    def url(self) -> str:
        hosts = ",".join(member.host for member in self._members)
        return f"mongodb://{hosts}/?replicaSet={SET_NAME}"

    @contextmanager
    def open(self) -> Iterator["ReplicaFront"]:
        """Serve, in threads, for as long as the context lasts."""
        for place, member in enumerate(self._members):
            threading.Thread(target=self._listen, args=(place, member), daemon=True).start()
        try:
            yield self
        finally:
            for member in self._members:
                member.close()

    def step_down(self) -> None:
        """Nobody is the primary. As in MongoDB, connections stay."""
        with self._lock:
            self._primary = None

    def elect(self, place: int) -> None:
        with self._lock:
            self._primary = place
            self._term += 1

    def fail_over(self) -> None:
        """The primary hangs up on everybody, and the other one is elected."""
        with self._lock:
            self._change_primary()

    def fail_over_at(self, write: int, *, is_carried_out: bool) -> None:
        """The primary is lost with one of the writes to come, the next being 0; it hangs up.

        The write was carried out by then, and only the answer is lost; or it was not.
        """
        with self._lock:
            self._last_words = (self.write_count + write, is_carried_out)

    def _change_primary(self) -> None:
        lost = self._primary or 0
        self._members[lost].hang_up()
        self._primary = 1 - lost
        self._term += 1

    def _listen(self, place: int, member: "_Member") -> None:
        with suppress(OSError):
            while True:
                line = member.accept()
                threading.Thread(target=self._serve, args=(place, line), daemon=True).start()

    def _serve(self, place: int, line: socket.socket) -> None:
        """One connection; answers come one at a time, for no member offers to stream them."""
        address = ("127.0.0.1", self._server_port)
        with line, suppress(OSError), socket.create_connection(address) as server:
            while (asked := receive(line)) is not None:
                answered = self._answer(place, asked, server)
                if answered is None:
                    return
                send(line, answered)

    def _answer(self, place: int, asked: Message, server: socket.socket) -> Message | None:
        command = read_document(asked)
        name = next(iter(command))
        if name in _GREETINGS:
            return answer(asked, self._greet(place, _ask(server, asked)))
        if name in _FOR_ANY_MEMBER:
            return answer(asked, _ask(server, asked))
        if place != self._primary:
            return answer(asked, _refuse(name, command))
        if name in WRITES:
            return self._write(asked, command, server)
        return answer(asked, _ask(server, asked))

    def _write(
        self, asked: Message, command: dict[str, Any], server: socket.socket
    ) -> Message | None:
        """Carry out a write, unless it is known; None when the primary is lost with it."""
        key = (bytes(command["lsid"]["id"]), command.get("txnNumber", -1))
        with self._lock:
            number, self.write_count = self.write_count, self.write_count + 1
            is_last = self._last_words is not None and self._last_words[0] == number
            is_carried_out = not is_last or (self._last_words or (0, False))[1]
            answered = self._known.get(key)
            self.repeated_count += answered is not None
        if answered is None and is_carried_out:
            # A server that is no member of a set refuses what makes a write retryable.
            answered = _ask(server, without(asked, "txnNumber"))
            if "txnNumber" in command and answered["ok"]:
                self._known[key] = answered
        if is_last:
            self.fail_over()
            return None
        assert answered is not None
        return answer(asked, answered)

    def _greet(self, place: int, greeting: dict[str, Any]) -> dict[str, Any]:
        """What the server says of itself, and what a member of a set says beside."""
        with self._lock:
            is_primary, primary, term = place == self._primary, self._primary, self._term
        hosts = [member.host for member in self._members]
        told = {
            **greeting,
            "ismaster": is_primary,
            "isWritablePrimary": is_primary,
            "secondary": not is_primary,
            "setName": SET_NAME,
            "setVersion": 1,
            "hosts": hosts,
            "me": hosts[place],
        }
        told.pop("topologyVersion", None)  # else the driver would wait for a stream of greetings
        if primary is not None:
            told["primary"] = hosts[primary]
        if is_primary:
            told["electionId"] = ObjectId(f"7fffffff{term:016x}")
        return told


class _Member:
    """A port, and the connections to it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lines: list[socket.socket] = []

    def accept(self) -> socket.socket:
        line, _ = self._listener.accept()
        self._lines.append(line)
        return line

    def hang_up(self) -> None:
        """End all connections; new ones are taken."""
        while self._lines:
            with suppress(OSError):
                self._lines.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()


def _ask(server: socket.socket, asked: Message) -> dict[str, Any]:
    send(server, asked)
    answered = receive(server)
    if answered is None:
        raise ConnectionResetError("the server has hung up")
    return read_document(answered)


def _refuse(name: str, command: dict[str, Any]) -> dict[str, Any]:
    if name not in WRITES:
        return {"ok": 0.0, **_REFUSED_READ}
    labels = ["RetryableWriteError"] if "txnNumber" in command else []
    return {"ok": 0.0, **_REFUSED_WRITE, "errorLabels": labels}
