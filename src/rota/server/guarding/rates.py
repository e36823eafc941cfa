"""How often somebody may ask."""

from datetime import datetime, timedelta
from hashlib import sha256
from ipaddress import IPv6Network

from starlette.types import Scope as AsgiScope

from rota.auth.caller import Caller
from rota.clock.protocol import Clock
from rota.errors import QuotaExceededError, UnauthorizedError
from rota.policy.limits import Bucket, Rate, next_token_at, take_tokens
from rota.server.guarding.origin import find_header
from rota.server.guarding.settings import GuardSettings
from rota.server.routing.admission import Guard

MOST_REMEMBERED = 10_000
"""So many callers are counted at once; whoever was heard of least lately begins anew."""

_SECOND = timedelta(seconds=1)
_IPV6_HOST_BITS = 64


class Turnstile:
    """Lets each of many through at a rate; what they are called is up to who asks."""

    def __init__(self, rate: Rate | None, quota: str, most: int = MOST_REMEMBERED) -> None:
        self._rate = rate
        self._quota = quota
        self._most = most
        self._buckets: dict[str, Bucket] = {}

    def pass_through(self, name: str, now: datetime) -> None:
        """Count one; QuotaExceededError when it is one too many, and then it is not counted."""
        self._take(name, 1, now)

    def look(self, name: str, now: datetime) -> None:
        """Refuse as ``pass_through`` would, and count nothing."""
        if (
            self._rate is not None
            and take_tokens(self._rate, self._buckets.get(name), 1, now).token_count < 1
        ):
            raise self._refusal(self._rate, name, now)

    def _take(self, name: str, count: int, now: datetime) -> None:
        if self._rate is None:
            return
        taken = take_tokens(self._rate, self._buckets.pop(name, None), count, now)
        while len(self._buckets) >= self._most:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[name] = taken.bucket
        if taken.token_count < count:
            raise self._refusal(self._rate, name, now)

    def _refusal(self, rate: Rate, name: str, now: datetime) -> QuotaExceededError:
        waits_for = next_token_at(rate, self._buckets.get(name), now) - now
        seconds = max(1, -(-waits_for // _SECOND))
        reason = f"more than {rate.count} in {rate.per.total_seconds():g} s"
        return QuotaExceededError(f"Too many requests: {reason}", self._quota, seconds)


class Turnstiles:
    """One for those who are known, by their tokens, and one for strangers, by their addresses."""

    def __init__(self, settings: GuardSettings, clock: Clock) -> None:
        self._known = Turnstile(settings.token_rate, "token_rate")
        self._strangers = Turnstile(settings.stranger_rate, "stranger_rate")
        self._clock = clock

    def look_at_stranger(self, scope: AsgiScope) -> None:
        """Refuse an address that nobody known has asked from too often, before asking a store."""
        self._strangers.look(_address_of(scope), self._clock.now())

    def count_stranger(self, scope: AsgiScope) -> None:
        self._strangers.pass_through(_address_of(scope), self._clock.now())

    def count_caller(self, caller: Caller) -> None:
        if caller.token_id is not None:
            self._known.pass_through(caller.token_id, self._clock.now())


class RatedGuard:
    """Another guard, which is asked only so often.

    Whoever was let in before is asked for, however many strangers knock at the same address: it may
    be that of a proxy, which everybody comes through.
    """

    def __init__(self, guard: Guard, turnstiles: Turnstiles, most: int = MOST_REMEMBERED) -> None:
        self._guard = guard
        self._turnstiles = turnstiles
        self._most = most
        self._faces: dict[bytes, None] = {}

    async def admit(self, scope: AsgiScope) -> Caller:
        """The caller; UnauthorizedError when it is nobody, QuotaExceededError when too often."""
        face = _face_of(scope)
        if face not in self._faces:
            self._turnstiles.look_at_stranger(scope)
        try:
            caller = await self._guard.admit(scope)
        except UnauthorizedError:
            self._faces.pop(face, None)
            self._turnstiles.count_stranger(scope)
            raise
        self._remember(face)
        self._turnstiles.count_caller(caller)
        return caller

    def _remember(self, face: bytes) -> None:
        self._faces.pop(face, None)
        while len(self._faces) >= self._most:
            del self._faces[next(iter(self._faces))]
        self._faces[face] = None


def _face_of(scope: AsgiScope) -> bytes:
    """What somebody is recognised by, and nobody can pass for them with."""
    return sha256(find_header(scope["headers"], b"authorization") or b"").digest()


def _address_of(scope: AsgiScope) -> str:
    """An IPv6 network of the usual size counts as one: nobody has only one address of it."""
    client = scope.get("client")
    address = client[0] if client else "unknown"
    return _network_of(address) if ":" in address else address


def _network_of(address: str) -> str:
    try:
        return str(IPv6Network((address, _IPV6_HOST_BITS), strict=False))
    except ValueError:
        return address
