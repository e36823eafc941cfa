"""The built-in kind ``http.request``: its payload, its handler, and what an answer means."""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import httpx2
import msgspec
from msgspec import Meta

from rota.clock import in_flight
from rota.errors import DeliveryError, ForbiddenAddressError, InvalidPayloadError
from rota.kinds.log_message import read_payload
from rota.kinds.network import Address, HttpRules, read_address
from rota.kinds.signing import NAME, SIGNATURE_HEADER, Keyring, sign
from rota.worker import Context, Discard, Snooze

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
        raise InvalidPayloadError("url", "is not a valid URL") from error
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
        raise InvalidPayloadError(field, f"has {name!r:.60}, which is not the name of a header")
    lowered = name.lower()
    if lowered in _OURS or lowered.startswith(("rota-", "proxy-")):
        raise InvalidPayloadError(f"{field}.{name}", "is set by Rota")
    if lowered in _SECRET:
        raise InvalidPayloadError(f"{field}.{name}", "would keep a secret in a payload")
    if len(value) > LONGEST_VALUE or not _VALUE.fullmatch(value):
        raise InvalidPayloadError(
            f"{field}.{name}", f"must be at most {LONGEST_VALUE} printable ASCII characters"
        )


LONGEST_SNOOZE = timedelta(hours=1)
SHORTEST_SNOOZE = timedelta(seconds=1)

PATIENCE = timedelta(hours=24)
"""How long a job may be put off by those it asks; from then on each answer spends an attempt."""

_TIMEOUT, _TOO_EARLY, _TOO_MANY, _UNAVAILABLE = 408, 425, 429, 503
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


def judge_answer(
    status: int,
    retry_after: str | None,
    expected: Collection[int] | None,
    now: datetime,
    age: timedelta,
) -> Snooze | Discard | None:
    """Nothing for success, a Snooze or Discard, or DeliveryError for a failure that may pass.

    - success: a status that is expected; from 200 to 299 when none is named;
    - 429 and 503 that say when to come back: a Snooze, at most an hour, and none after a day;
    - 408, 425, 429 and from 500 on, and 2xx that was not expected: failed, tried again;
    - all else: no repetition would change it, and redirects are not followed.
    """
    if status in expected if expected is not None else 200 <= status < 300:
        return None
    if status in (_TOO_MANY, _UNAVAILABLE) and age < PATIENCE:
        later = read_retry_after(retry_after, now)
        if later is not None:
            return Snooze(min(max(later, SHORTEST_SNOOZE), LONGEST_SNOOZE))
    if status >= 500 or status < 300 or status in (_TIMEOUT, _TOO_EARLY, _TOO_MANY):
        raise DeliveryError(f"answered {status}", status)
    if status < 400:
        return Discard(f"answered {status}: redirects are not followed")
    return Discard(f"answered {status}")


def read_retry_after(text: str | None, now: datetime) -> timedelta | None:
    """In how long to come back, by seconds or by date; None when that is not said."""
    if text is None:
        return None
    if _SECONDS.fullmatch(text.strip()):
        return timedelta(seconds=int(text))
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)) - now


Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name, as text; OSError if there are none."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """As the host's own resolver has it."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Sends one request to the first checked address that can be connected to.

    No connection is used twice: one that was made for a name must not serve another.
    """

    def __init__(
        self, rules: HttpRules, context: ssl.SSLContext, resolve: Resolve = resolve
    ) -> None:
        self._rules = rules
        self._resolve = resolve
        self._transport = httpx2.AsyncHTTPTransport(
            verify=context,
            trust_env=False,
            limits=httpx2.Limits(max_keepalive_connections=0),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Resolve, check and connect; ForbiddenAddressError before anything is sent."""
        host = name_of(request.url)
        addresses = await self._find_addresses(host, _port_of(request.url))
        for address in addresses[:-1]:
            try:
                return await self._send(request, host, address)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._send(request, host, addresses[-1])

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _find_addresses(self, host: str, port: int) -> list[Address]:
        try:
            addresses = [read_address(text) for text in await self._resolve(host, port)]
        except (OSError, ValueError) as error:
            raise DeliveryError(f"{host} cannot be resolved") from error
        if not addresses:
            raise DeliveryError(f"{host} has no address")
        self._rules.check_addresses(host, addresses)
        return addresses

    async def _send(self, request: httpx2.Request, host: str, address: Address) -> httpx2.Response:
        pinned = httpx2.Request(
            method=request.method,
            url=request.url.copy_with(host=str(address)),
            headers=request.headers,  # with the Host of the name
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        return await self._transport.handle_async_request(pinned)


def name_of(url: httpx2.URL) -> str:
    """The host as resolvers and certificates have it: in ASCII, and without a full stop."""
    return url.raw_host.decode("ascii").lower().rstrip(".")


def _port_of(url: httpx2.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


@cache
def _default_tls() -> ssl.SSLContext:
    """The certificates that this host trusts. To read them takes 50 ms."""
    return ssl.create_default_context()


class HttpRequests:
    """Makes the request that a job asks for, and judges the answer by its status alone.

    The body of the answer is neither read nor kept: a caller who may add jobs must not be able to
    read through them what only this host can. A request may reach people, so quiet hours hold it
    back unless its job says that it does not notify.
    """

    notifies = True

    def __init__(
        self,
        rules: HttpRules,
        keyring: Keyring,
        *,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        self._rules = rules
        self._keyring = keyring
        self._tls = tls or _default_tls()
        self._resolve = resolve

    async def __call__(self, context: Context) -> Snooze | Discard | None:
        """One attempt; DeliveryError when another may succeed."""
        try:
            asked = read_request(context.payload, self._rules)
            response = await self._send(asked, self._make_headers(asked, context))
        except (InvalidPayloadError, ForbiddenAddressError) as error:
            return Discard(error.message)
        age = context.now - context.job.created_at
        retry_after = response.headers.get("Retry-After")
        expected = asked.request.expected
        return judge_answer(response.status_code, retry_after, expected, context.now, age)

    async def post(self, asked: Asked, headers: list[tuple[str, str]]) -> None:
        """Make a request that belongs to no job. Raises DeliveryError unless it succeeds."""
        status = (await self._send(asked, headers)).status_code
        if not 200 <= status < 300:
            raise DeliveryError(f"answered {status}", status)

    def _make_headers(self, asked: Asked, context: Context) -> list[tuple[str, str]]:
        named = {name.lower() for name in asked.request.headers}
        defaults = {"User-Agent": "Rota", "Accept": "*/*", "Content-Type": asked.content_type}
        headers = [
            *asked.request.headers.items(),
            *((name, it) for name, it in defaults.items() if it and name.lower() not in named),
            ("Connection", "close"),
            ("Rota-Job-Id", context.job.id),
            ("Rota-Attempt", str(context.attempt)),
            ("Idempotency-Key", _as_header(context.effect_key)),
        ]
        if context.job.trace is not None and "traceparent" not in named:
            headers.append(("traceparent", _as_header(context.job.trace)))
        if asked.request.secret is not None:
            secrets = self._keyring.find(context.tenant, asked.request.secret)
            headers.append((SIGNATURE_HEADER, sign(asked.body, secrets, context.now)))
        return headers

    async def _send(self, asked: Asked, headers: list[tuple[str, str]]) -> httpx2.Response:
        """The answer, as soon as its head has come; the connection is closed."""
        allowed = timedelta(seconds=asked.request.timeout_seconds)
        transport = PinnedTransport(self._rules, self._tls, self._resolve)
        request = httpx2.Request(
            asked.request.method, asked.url, headers=headers, content=asked.body or None
        )
        try:
            with in_flight():
                async with asyncio.timeout(allowed.total_seconds()), transport:
                    response = await transport.handle_async_request(request)
                    await response.aclose()
        except TimeoutError as error:
            raise DeliveryError(f"no answer within {allowed.total_seconds():g} s") from error
        except (httpx2.HTTPError, OSError) as error:
            raise DeliveryError(f"{name_of(asked.url)} {_describe(error)}") from error
        return response


def _describe(error: Exception) -> str:
    """What went wrong, without details of the network of this process."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"has no certificate that can be trusted: {cause.verify_message}"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return "cannot be connected to"
    return f"did not answer as HTTP has it ({type(error).__name__})"


def _as_header(text: str) -> str:
    """An idempotency key may be any printable text, a header not."""
    return text.encode("ascii", "backslashreplace").decode()
