"""Makes one attempt at an ``http.request``, by rules that let it reach this host."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Any

from msgspec.structs import replace
from tests.unit.kinds.http.receiver import HOST

from rota.jobs import Job
from rota.kinds import HttpRules, Keyring
from rota.kinds.http_request import HttpRequests
from rota.testing import a_job
from rota.worker import Context, Discard, Snooze

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECRET = "a-secret-of-the-tests"  # noqa: S105 - of the tests
LOOPBACK = (ip_network("127.0.0.0/8"),)


class Asker:
    """Rules, a resolver that says what it is told to, and a note of every name it was asked."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, **rules: Any) -> None:
        self.port = port
        self.scheme = "http" if tls is None else "https"
        self.answers: list[Sequence[str]] = [["127.0.0.1"]]
        self.asked: list[str] = []
        made = HttpRules(networks=LOOPBACK, ports=frozenset({port}), is_plain_allowed=tls is None)
        self.requests = HttpRequests(
            replace(made, **rules),
            Keyring({"ROTA_SECRET_HOOKS": SECRET}),
            tls=tls,
            resolve=self._resolve,
        )

    async def ask(self, *, job: Job | None = None, **payload: Any) -> Snooze | Discard | None:
        """One attempt, at ``/hook`` unless told otherwise."""
        payload.setdefault("url", f"{self.scheme}://{HOST}:{self.port}/hook")
        made = job or a_job(kind="http.request", tenant="default", created_at=NOW)
        return await self.requests(Context(replace(made, payload=payload), NOW))

    async def _resolve(self, host: str, _: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def aged(age: timedelta) -> Job:
    return a_job(kind="http.request", tenant="default", created_at=NOW - age)
