"""Posts alerts to the webhook that the configuration names."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from rota.errors import ForbiddenAddressError, InvalidConfigurationError, RotaError
from rota.kinds.http_request import HttpRequests, read_request
from rota.kinds.network import HttpRules, read_http_rules
from rota.kinds.signing import DEFAULT_TENANT, SIGNATURE_HEADER, Keyring, sign
from rota.runtime.configuration import Webhook
from rota.telemetry.notices import Notice

ANSWERS_WITHIN_SECONDS = 10.0


class WebhookBody(msgspec.Struct, frozen=True):
    """What is posted: the conditions that began, each once unless the answer was lost."""

    alerts: Sequence[Notice]
    taken_at: datetime


class WebhookSender:
    """Posts alerts, under the network rules of the kind ``http.request``."""

    def __init__(
        self, webhook: Webhook, rules: HttpRules | None = None, keyring: Keyring | None = None
    ) -> None:
        self._webhook = webhook
        self._rules = read_http_rules() if rules is None else rules
        self._keyring = keyring or Keyring()
        self._requests = HttpRequests(self._rules, self._keyring)
        try:
            read_request({"url": webhook.url}, self._rules)
        except (RotaError, ForbiddenAddressError) as error:
            raise InvalidConfigurationError({"alert-webhook": error.message}) from error

    async def send(self, alerts: Sequence[Notice], now: datetime) -> None:
        """Post these alerts. Raises RotaError when they may not have arrived."""
        body = msgspec.to_builtins(WebhookBody(alerts, now))
        asked = read_request(
            {"url": self._webhook.url, "json": body, "timeout_seconds": ANSWERS_WITHIN_SECONDS},
            self._rules,
        )
        headers = [("Content-Type", "application/json"), ("User-Agent", "Rota")]
        if self._webhook.secret is not None:
            secrets = self._keyring.find(DEFAULT_TENANT, self._webhook.secret)
            headers.append((SIGNATURE_HEADER, sign(asked.body, secrets, now)))
        await self._requests.post(asked, [*headers, ("Connection", "close")])
