"""What can be in the way of an effect that is to happen once."""

from datetime import datetime

from rota.errors.groups import ConflictError, RefusedError


class EffectInProgressError(ConflictError):
    """Somebody else is bringing the effect about; ``until`` is when their lease runs out."""

    def __init__(self, tenant: str, key: str, until: datetime) -> None:
        super().__init__(
            f'Effect "{key}" is being brought about elsewhere, until {until.isoformat()} at least',
            {"tenant": tenant, "key": key, "until": until.isoformat()},
        )
        self.tenant = tenant
        self.key = key
        self.until = until


class EffectUnknownError(RefusedError):
    """Nobody knows whether the effect happened, and it must not happen twice.

    Whoever can find out says so with ``Ledger.forget``, or with ``Ledger.confirm``.
    """

    def __init__(self, tenant: str, key: str, started_at: datetime) -> None:
        super().__init__(
            f'Effect "{key}" began at {started_at.isoformat()}, and nobody knows whether it '
            "happened",
            {"tenant": tenant, "key": key, "startedAt": started_at.isoformat()},
        )
        self.tenant = tenant
        self.key = key
        self.started_at = started_at
