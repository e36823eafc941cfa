"""What is kept of an attempt besides its outcome: the result, and the traceback of an error."""

import traceback
from types import TracebackType

from rota.errors import ResultTooLargeError
from rota.jobs import shorten_report
from rota.worker.registry import Encode

LARGEST_RESULT = 64 * 1024
"""The number of bytes of JSON that are kept of a result."""

_OURS = ("rota.worker.", "rota.task")


def encode_result(returned: object, encode: Encode) -> bytes | None:
    """The result as JSON; None if there is nothing to keep. ResultTooLargeError if it is large."""
    result = encode(returned)
    if result is not None and len(result) > LARGEST_RESULT:
        raise ResultTooLargeError(len(result), LARGEST_RESULT)
    return result


def format_traceback(error: BaseException) -> str | None:
    """The traceback as Python prints it, without the frames of Rota at its start; shortened."""
    frames = _skip_worker(error.__traceback__)
    try:
        report = traceback.TracebackException(type(error), error, frames)
        return shorten_report("".join(report.format()))
    except Exception:  # noqa: BLE001 - the code of a handler's error may raise anything
        return None


def _skip_worker(frames: TracebackType | None) -> TracebackType | None:
    """The frames from the first that is not Rota's; all of them if there is none."""
    first = frames
    while first is not None and first.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
        first = first.tb_next
    return frames if first is None else first
