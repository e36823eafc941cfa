"""Reads files of jobs piece by piece, however large they are.

A file holds a list of jobs, an object with the list ``jobs``, or a job on each line.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError, JSONDecoder
from typing import Any, BinaryIO

from rota.cli.arguments import find_size, open_input
from rota.errors import InvalidInputError, invalid

PIECE = 1 << 20
LONGEST_JOB = 64 << 20
"""Bytes of one job at most. What is longer is not a list of jobs."""

_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_HEAD = 64
_LONGEST_WORD = 16
_OBJECT_OF_JOBS = re.compile(r'\{\s*"jobs"\s*:\s*\[')


class JobFile:
    """The jobs of a file. ``size`` is its length in bytes, None if that is not known."""

    def __init__(self, file: BinaryIO, size: int | None) -> None:
        self._file = file
        self.size = size
        self.read_count = 0
        """Bytes that have been read so far."""
        self._text, self._place = "", 0
        self._is_at_end = False
        self._decoder = JSONDecoder()
        self._rest = b""

    def read(self) -> Iterator[Any]:
        """One job after the other. Raises InvalidInputError where the file is not JSON."""
        while len(self._text) < _LONGEST_HEAD and not self._is_at_end:
            self._fill()
        self._skip()
        found = _OBJECT_OF_JOBS.match(self._text, self._place)
        if found is not None:
            self._place = found.end()
            yield from self._read_list("]")
            self._expect("}")
        elif self._peek() == "[":
            self._place += 1
            yield from self._read_list("]")
        else:
            while self._peek():
                yield self._decode()
            return
        if self._peek():
            raise self._refuse("is not JSON: something follows its list of jobs")

    def _read_list(self, end: str) -> Iterator[Any]:
        if self._peek() == end:
            self._place += 1
            return
        while True:
            yield self._decode()
            following = self._peek()
            self._place += 1
            if following == end:
                return
            if following != ",":
                self._place -= 1
                raise self._refuse('is not JSON: "," or "]" is missing after a job')

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise self._refuse(f'is not JSON: "{character}" is missing at its end')
        self._place += 1

    def _peek(self) -> str:
        """The next character that is not a space; empty at the end."""
        self._skip()
        while self._place == len(self._text) and not self._is_at_end:
            self._fill()
            self._skip()
        return self._text[self._place : self._place + 1]

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._place)
        self._place = found.end() if found else self._place

    def _decode(self) -> Any:
        self._peek()
        while True:
            try:
                job, end = self._decoder.raw_decode(self._text, self._place)
            except JSONDecodeError as error:
                if self._is_at_end or not self._may_go_on(error):
                    raise self._refuse(f"is not JSON: {error.msg}") from error
            except RecursionError as error:
                raise self._refuse("is not JSON: it is nested too deeply") from error
            else:
                if end < len(self._text) or self._is_at_end:  # else a number may go on
                    self._place = end
                    return job
            if len(self._text) - self._place > LONGEST_JOB:
                raise self._refuse(f"has a job of more than {LONGEST_JOB >> 20} MiB")
            self._fill()

    def _may_go_on(self, error: JSONDecodeError) -> bool:
        """Whether it is the end of the text that is wrong, and there is more to read."""
        return error.msg.startswith("Unterminated") or error.pos + _LONGEST_WORD > len(self._text)

    def _fill(self) -> None:
        """Read on: twice as much as the job that is not complete, so that each is read seldom."""
        piece = self._file.read(max(PIECE, len(self._text) - self._place))
        self.read_count += len(piece)
        self._is_at_end = not piece
        content, self._rest = self._rest + piece, b""
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            if self._is_at_end or len(content) - error.start > 3:
                raise self._refuse("is not UTF-8") from error
            text, self._rest = content[: error.start].decode("utf-8"), content[error.start :]
        self._text, self._place = self._text[self._place :] + text, 0

    def _refuse(self, reason: str) -> InvalidInputError:
        where = f"{reason} (near byte {max(0, self.read_count - len(self._text) + self._place)})"
        return InvalidInputError(f"FILE {where}", {"field": "FILE", "reason": reason})


def read_jobs(file: JobFile) -> Iterator[dict[str, Any]]:
    """The jobs of a file. Raises InvalidInputError if it has none, or holds something else."""
    refusal = invalid(
        "FILE", 'must hold a list of jobs, an object with a list "jobs", or a job on each line'
    )
    is_empty = True
    for job in file.read():
        if not isinstance(job, dict) or (is_empty and not {"name", "kind"} & job.keys()):
            raise refusal
        is_empty = False
        yield job
    if is_empty:
        raise refusal


@contextmanager
def open_jobs(name: str) -> Iterator[JobFile]:
    """The file of that name; ``-`` is standard input."""
    with open_input(name) as file:
        yield JobFile(file, find_size(file))
