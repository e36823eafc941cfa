"""Effects that happen effectively once: a ledger of what was done, by tenant and key."""

from rota.effects.ledger import Ledger, LedgerSettings
from rota.effects.record import Effect, EffectState, OnCrash, effect_key

__all__ = ["Effect", "EffectState", "Ledger", "LedgerSettings", "OnCrash", "effect_key"]
