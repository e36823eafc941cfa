"""A keeper of leases: a connection of its own, for a thread that may wait for the answer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import redis
from redis.exceptions import MovedError, NoScriptError, TryAgainError
from redis.retry import Retry

from rota.stores.protocol import HeldLease
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.connections import MOST_TRIES, connection_options
from rota.stores.redis.jobs.leasing.leasing import EXTEND, extension_of
from rota.stores.redis.keys import name_keys
from rota.stores.redis.translation import DRIVER_ERRORS, LOST_CONNECTION, SILENCE, translate
from rota.triggers.zone import to_utc


class RedisKeeper:
    """Extends leases while the store's own event loop may be busy."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._keys = name_keys(settings.name).jobs
        self._client: redis.Redis | None = None
        self._place: dict[str, Any] = {}
        """Where a cluster says that the store is."""

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """As the store's own; the thread waits for the answer."""
        to_utc(now, "now")
        arguments = (len(self._keys), *self._keys, *extension_of(held, to_utc(until, "until")))
        try:
            return list(map(bool, self._ask(arguments)))
        except DRIVER_ERRORS as error:
            self.close()
            raise translate(error, self._settings.label) from error

    def close(self) -> None:
        """Let the connection go."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self, arguments: Sequence[Any]) -> Any:
        is_new = self._client is None
        for _ in range(MOST_TRIES):
            try:
                return self._run(arguments)
            except MovedError as moved:
                self._place = {"port": moved.port} | ({"host": moved.host} if moved.host else {})
                self.close()
            except LOST_CONNECTION as error:
                # While nobody asked, a loss was not noticed. To extend twice is to extend once.
                self.close()
                self._place = {}
                if is_new or isinstance(error, SILENCE):
                    raise
                is_new = True
        raise TryAgainError

    def _run(self, arguments: Sequence[Any]) -> Any:
        client = self._connected()
        try:
            return client.evalsha(EXTEND.digest, *arguments)
        except NoScriptError:
            return client.eval(EXTEND.text, *arguments)

    def _connected(self) -> redis.Redis:
        if self._client is None:
            options = connection_options(self._settings, Retry)
            self._client = redis.Redis.from_url(self._settings.url, **options)
            self._client.connection_pool.connection_kwargs.update(self._place)
        return self._client
