"""MongoDB's messages as they go over the wire: enough of them to read a command and its answer.

OP_MSG carries everything; OP_QUERY and OP_REPLY only the first greeting of a connection.
"""

import struct
from socket import socket
from typing import Any, NamedTuple

import bson

OP_REPLY = 1
OP_QUERY = 2004
OP_MSG = 2013

_HEADER = struct.Struct("<iiii")
_REPLY = struct.Struct("<iqii")


class Message(NamedTuple):
    """One message: who it is, which one it answers, and all that follows the header."""

    number: int
    answers: int
    code: int
    payload: bytes


def receive(line: socket) -> Message | None:
    """The next message; None when the other side has hung up."""
    header = _read(line, _HEADER.size)
    if header is None:
        return None
    length, number, answers, code = _HEADER.unpack(header)
    payload = _read(line, length - _HEADER.size)
    return None if payload is None else Message(number, answers, code, payload)


def send(line: socket, message: Message) -> None:
    length = _HEADER.size + len(message.payload)
    header = _HEADER.pack(length, message.number, message.answers, message.code)
    line.sendall(header + message.payload)


def read_document(message: Message) -> dict[str, Any]:
    """The command, or the answer, in a message."""
    if message.code == OP_MSG:
        return bson.decode(message.payload[_find_body(message.payload)])
    if message.code == OP_QUERY:
        start = message.payload.index(b"\0", 4) + 1 + 8
        return bson.decode(message.payload[start:])
    assert message.code == OP_REPLY, f"a message of a sort not known here: {message.code}"
    return bson.decode(message.payload[_REPLY.size :])


def answer(asked: Message, document: dict[str, Any]) -> Message:
    """An answer to a message, in the same manner."""
    body = bson.encode(document)
    if asked.code == OP_QUERY:
        return Message(0, asked.number, OP_REPLY, _REPLY.pack(8, 0, 0, 1) + body)
    return Message(0, asked.number, OP_MSG, bytes(4) + b"\0" + body)


def without(asked: Message, field: str) -> Message:
    """The same command without one of its fields."""
    if asked.code != OP_MSG:
        return asked
    body = _find_body(asked.payload)
    command = bson.decode(asked.payload[body])
    command.pop(field, None)
    payload = asked.payload[: body.start] + bson.encode(command) + asked.payload[body.stop :]
    return asked._replace(payload=payload)


def _find_body(payload: bytes) -> slice:
    """The section of sort 0; those of sort 1 are lists of documents that belong to it."""
    at = 4
    while payload[at] != 0:
        at += 1 + struct.unpack_from("<i", payload, at + 1)[0]
    length = struct.unpack_from("<i", payload, at + 1)[0]
    return slice(at + 1, at + 1 + length)


def _read(line: socket, count: int) -> bytes | None:
    read = bytearray()
    while len(read) < count:
        piece = line.recv(count - len(read))
        if not piece:
            return None
        read += piece
    return bytes(read)
