"""The payload of ``http.request``, and the request that is made of it."""

import re
from typing import Annotated, Any, Literal

import httpx2
import msgspec
from msgspec import Meta

from rota.errors import InvalidPayloadError
from rota.kinds.http.rules import HttpRules
from rota.kinds.keyring import NAME
from rota.kinds.payloads import read_payload

LONGEST_URL = 2_048
LARGEST_BODY = 1_048_576
MOST_HEADERS = 50
LONGEST_VALUE = 4_096
LONGEST_TIMEOUT = 300

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_VALUE = re.compile(r"[\x20-\x7e\t]*", re.ASCII)
_OURS = frozenset(
    {
        "connection", "content-length", "expect", "host", "idempotency-key", "keep-alive", "te",
        "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_SECRET = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
_BODILESS = ("GET", "HEAD")

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Status = Annotated[int, Meta(ge=100, le=599)]


class HttpRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The payload. ``body`` is sent as it is, ``json`` encoded; at most one of them.

    ``expected`` are the statuses that mean success; left out, all from 200 to 299 do. ``secret``
    is the name of the secret with which the request is signed.
    """

    url: Annotated[str, Meta(min_length=1, max_length=LONGEST_URL)]
    method: Method = "POST"
    headers: Annotated[dict[str, str], Meta(max_length=MOST_HEADERS)] = {}
    body: str | None = None
    json: Any = msgspec.UNSET
    timeout_seconds: Annotated[float, Meta(gt=0, le=LONGEST_TIMEOUT)] = 10.0
    expected: Annotated[list[Status], Meta(min_length=1, max_length=50)] | None = None
    secret: str | None = None


class Asked(msgspec.Struct, frozen=True):
    """A payload that was found to be in order."""

    request: HttpRequest
    url: httpx2.URL
    body: bytes

    @property
    def content_type(self) -> str | None:
        if self.request.json is not msgspec.UNSET:
            return "application/json"
        return None if self.request.body is None else "text/plain; charset=utf-8"


def read_request(payload: Any, rules: HttpRules) -> Asked:
    """The payload as a request that may be made, or InvalidPayloadError that names the field."""
    request = read_payload(payload, HttpRequest)
    for name, value in request.headers.items():
        _check_header(name, value)
    if request.secret is not None and not NAME.fullmatch(request.secret):
        raise InvalidPayloadError("secret", "must be the name of a secret, not a secret")
    return Asked(request, _read_url(request.url, rules), _read_body(request))


def _read_url(text: str, rules: HttpRules) -> httpx2.URL:
    if not text.isascii() or any(it <= " " or it in "\x7f\\" for it in text):
        raise InvalidPayloadError("url", "must be ASCII without spaces; encode what is not")
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise InvalidPayloadError("url", "is no address of a request") from error
    if not url.is_absolute_url or not url.host:
        raise InvalidPayloadError("url", "must name a scheme and a host")
    if url.userinfo:
        raise InvalidPayloadError("url", "must not hold a user or a password")
    rules.check_target(url.scheme, url.port or (443 if url.scheme == "https" else 80))
    return url.copy_with(fragment=None)


def _read_body(request: HttpRequest) -> bytes:
    has_json = request.json is not msgspec.UNSET
    if has_json and request.body is not None:
        raise InvalidPayloadError("json", "and body cannot both be sent")
    if request.method in _BODILESS and (has_json or request.body is not None):
        field = "json" if has_json else "body"
        raise InvalidPayloadError(field, f"cannot be sent with {request.method}")
    body = msgspec.json.encode(request.json) if has_json else _encode(request.body)
    if len(body) > LARGEST_BODY:
        field = "json" if has_json else "body"
        raise InvalidPayloadError(field, f"must not have more than {LARGEST_BODY} bytes")
    return body


def _encode(body: str | None) -> bytes:
    try:
        return (body or "").encode()
    except UnicodeEncodeError as error:
        raise InvalidPayloadError("body", "holds half a character") from error


def _check_header(name: str, value: str) -> None:
    field = "headers"
    if not _TOKEN.fullmatch(name):
        raise InvalidPayloadError(field, f"has a name that is none: {name!r:.60}")
    lowered = name.lower()
    if lowered in _OURS or lowered.startswith(("rota-", "proxy-")):
        raise InvalidPayloadError(f"{field}.{name}", "is set by Rota")
    if lowered in _SECRET:
        raise InvalidPayloadError(f"{field}.{name}", "would keep a secret in a payload")
    if len(value) > LONGEST_VALUE or not _VALUE.fullmatch(value):
        raise InvalidPayloadError(
            f"{field}.{name}", f"must be at most {LONGEST_VALUE} printable ASCII characters"
        )
