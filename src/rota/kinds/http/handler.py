"""The handler of ``http.request``."""

import asyncio
import ssl
from datetime import timedelta

import httpx2

from rota.clock import in_flight
from rota.errors import DeliveryError, ForbiddenAddressError, InvalidPayloadError
from rota.kinds.http.answers import judge_answer
from rota.kinds.http.asking import Asked, read_request
from rota.kinds.http.pinning import PinnedTransport, Resolve, name_of, resolve
from rota.kinds.http.rules import HttpRules
from rota.kinds.keyring import Keyring
from rota.kinds.signing import SIGNATURE_HEADER, sign
from rota.worker import Context, Discard, Snooze


class HttpRequests:
    """Makes the request that a job asks for, and judges the answer by its status alone.

    The body of the answer is not read, let alone kept: whoever may add jobs must not be able to
    read through them what only this host can.
    """

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
        self._tls = tls or ssl.create_default_context()
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
    """What went wrong, without what it would tell about the network in here."""
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
