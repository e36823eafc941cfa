"""Guarding the service: who is let in, how often, and what every answer says to browsers."""

from rota.server.guarding.layer import GuardLayer
from rota.server.guarding.listening import SERVER_OPTIONS
from rota.server.guarding.rates import RatedGuard, Turnstiles
from rota.server.guarding.settings import GuardSettings
from rota.server.guarding.signing_in import PageGuard
from rota.server.guarding.waiting import WaitingQuota

__all__ = [
    "SERVER_OPTIONS",
    "GuardLayer",
    "GuardSettings",
    "PageGuard",
    "RatedGuard",
    "Turnstiles",
    "WaitingQuota",
]
