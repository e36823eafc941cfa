"""Access: who may do what, for which tenant."""

from rota.access.caller import EVERY_SCOPE, Caller, Scope

__all__ = ["EVERY_SCOPE", "Caller", "Scope"]
