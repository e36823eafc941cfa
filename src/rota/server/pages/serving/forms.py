"""What people send by a form."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qs

from starlette.requests import Request

from rota.errors import InvalidRequestError, RequestTooLargeError

LONGEST_FORM = 256 * 1024
MOST_FIELDS = 2_000

_FORM = "application/x-www-form-urlencoded"


class Form(NamedTuple):
    """The values by name; a name may have several."""

    values: Mapping[str, list[str]]

    def one(self, name: str, default: str = "") -> str:
        """The last value of that name, without the space around it."""
        return self.values.get(name, [default])[-1].strip()

    def several(self, name: str) -> list[str]:
        return self.values.get(name, [])


async def read_form(request: Request) -> Form:
    """The fields of a form; one that is too large is refused, and not read to its end."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise InvalidRequestError("content-type", f"must be {_FORM}")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_FORM:
            raise RequestTooLargeError(LONGEST_FORM)
    try:
        text = body.decode("ascii")
        values = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise InvalidRequestError("body", "must be a form with fields in UTF-8") from error
    return Form(values)
