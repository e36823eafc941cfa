"""Every error of Rota, grouped by who must act.

RotaError
  InvalidInputError   the caller must change the request
    InvalidTriggerError
      InvalidCronExpressionError
      InvalidRecurrenceRuleError
    FieldParseError
    InvalidStoreUrlError
    InvalidZoneError
  NotFoundError       nothing has that name
  ConflictError       the world moved on; read again
    StaleVersionError
  RefusedError        a limit or a gate said no
  StoreError          the store is at fault
    SchemaOutdatedError
    StoreClosedError
    StoreDamagedError
    StoreUnavailableError
  CronCalculationError
  NoOccurrenceError
"""

from rota.errors.groups import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    RotaError,
    StoreError,
)
from rota.errors.stores import (
    InvalidStoreUrlError,
    SchemaOutdatedError,
    StaleVersionError,
    StoreClosedError,
    StoreDamagedError,
    StoreUnavailableError,
)
from rota.errors.triggers import (
    CronCalculationError,
    FieldParseError,
    InvalidCronExpressionError,
    InvalidRecurrenceRuleError,
    InvalidTriggerError,
    InvalidZoneError,
    NoOccurrenceError,
)

__all__ = [
    "ConflictError",
    "CronCalculationError",
    "FieldParseError",
    "InvalidCronExpressionError",
    "InvalidInputError",
    "InvalidRecurrenceRuleError",
    "InvalidStoreUrlError",
    "InvalidTriggerError",
    "InvalidZoneError",
    "NoOccurrenceError",
    "NotFoundError",
    "RefusedError",
    "RotaError",
    "SchemaOutdatedError",
    "StaleVersionError",
    "StoreClosedError",
    "StoreDamagedError",
    "StoreError",
    "StoreUnavailableError",
]
