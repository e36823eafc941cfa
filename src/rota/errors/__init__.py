"""Every error of Rota, grouped by who must act.

RotaError
  InvalidInputError   the caller must change the request
    InvalidTriggerError
      InvalidCronExpressionError
      InvalidRecurrenceRuleError
    ClockUseError
    FieldParseError
    InvalidConfigurationError
    InvalidCursorError
    InvalidJobError
      UnknownDependencyError
    InvalidRequestError
    InvalidStoreUrlError
    InvalidZoneError
    MethodNotAllowedError
    RequestTooLargeError
    RegistrationsNotArrayError
    RegistrationShapeError
    InvalidRegistrationError
    ScheduleDuplicateTaskError
    CronExpressionInvalidError
    NegativeRetryDelayError
    UnguardedAddressError
    UnsupportedConnectionError
    UnsupportedMediaError
    WorkerForkedError
  NotFoundError       nothing has that name
    JobNotFoundError
    TaskNotRegisteredError
    TokenNotFoundError
    UnknownPathError
  ConflictError       the world moved on; read again
    AddressUnusableError
    DependenciesFixedError
    DependencyCycleError
    DuplicateJobError
    EffectInProgressError
    HasDependentsError
    IllegalMoveError
    JobEndedError
    SchedulerAlreadyActiveError
    StaleVersionError
    TaskListMismatchError
    WorkerBusyError
  RefusedError        a limit or a gate said no
    CrossSiteRequestError
    EffectUnknownError
    ForbiddenError
    QuotaExceededError
    UnauthorizedError
    UnknownHostError
  StoreError          the store is at fault
    DamagedJobError
    SchemaOutdatedError
    ServerUnavailableError
    StoreClosedError
    StoreDamagedError
    StoreUnavailableError
  BusyLoopError
  CronCalculationError
  DeadlockError
  MissingExtraError
  NoOccurrenceError
  ScheduleTaskError
  SchedulerInitializationError
  StopSchedulerError
  TaskTryDeserializeError
    TaskInvalidStructureError
    TaskInvalidTypeError
    TaskInvalidValueError
    TaskMissingFieldError
"""

from rota.errors.access import (
    CrossSiteRequestError,
    ForbiddenError,
    QuotaExceededError,
    TokenNotFoundError,
    UnauthorizedError,
    UnguardedAddressError,
    UnknownHostError,
)
from rota.errors.clock import BusyLoopError, ClockUseError, DeadlockError
from rota.errors.configuration import InvalidConfigurationError, MissingExtraError
from rota.errors.effects import EffectInProgressError, EffectUnknownError
from rota.errors.groups import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    RotaError,
    StoreError,
)
from rota.errors.jobs import (
    DamagedJobError,
    DependenciesFixedError,
    DependencyCycleError,
    DuplicateJobError,
    HasDependentsError,
    IllegalMoveError,
    InvalidCursorError,
    InvalidJobError,
    JobEndedError,
    JobNotFoundError,
    UnknownDependencyError,
)
from rota.errors.requests import (
    InvalidRequestError,
    MethodNotAllowedError,
    RequestTooLargeError,
    UnknownPathError,
    UnsupportedMediaError,
)
from rota.errors.scheduler import (
    CronExpressionInvalidError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
    RegistrationsNotArrayError,
    ScheduleDuplicateTaskError,
    SchedulerAlreadyActiveError,
    SchedulerInitializationError,
    ScheduleTaskError,
    StopSchedulerError,
    TaskInvalidStructureError,
    TaskInvalidTypeError,
    TaskInvalidValueError,
    TaskListMismatchError,
    TaskMissingFieldError,
    TaskNotRegisteredError,
    TaskTryDeserializeError,
)
from rota.errors.service import AddressUnusableError, ServerUnavailableError
from rota.errors.stores import (
    InvalidStoreUrlError,
    SchemaOutdatedError,
    StaleVersionError,
    StoreClosedError,
    StoreDamagedError,
    StoreUnavailableError,
    UnsupportedConnectionError,
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
from rota.errors.worker import WorkerBusyError, WorkerForkedError

__all__ = [
    "AddressUnusableError",
    "BusyLoopError",
    "ClockUseError",
    "ConflictError",
    "CronCalculationError",
    "CronExpressionInvalidError",
    "CrossSiteRequestError",
    "DamagedJobError",
    "DeadlockError",
    "DependenciesFixedError",
    "DependencyCycleError",
    "DuplicateJobError",
    "EffectInProgressError",
    "EffectUnknownError",
    "FieldParseError",
    "ForbiddenError",
    "HasDependentsError",
    "IllegalMoveError",
    "InvalidConfigurationError",
    "InvalidCronExpressionError",
    "InvalidCursorError",
    "InvalidInputError",
    "InvalidJobError",
    "InvalidRecurrenceRuleError",
    "InvalidRegistrationError",
    "InvalidRequestError",
    "InvalidStoreUrlError",
    "InvalidTriggerError",
    "InvalidZoneError",
    "JobEndedError",
    "JobNotFoundError",
    "MethodNotAllowedError",
    "MissingExtraError",
    "NegativeRetryDelayError",
    "NoOccurrenceError",
    "NotFoundError",
    "QuotaExceededError",
    "RefusedError",
    "RegistrationShapeError",
    "RegistrationsNotArrayError",
    "RequestTooLargeError",
    "RotaError",
    "ScheduleDuplicateTaskError",
    "ScheduleTaskError",
    "SchedulerAlreadyActiveError",
    "SchedulerInitializationError",
    "SchemaOutdatedError",
    "ServerUnavailableError",
    "StaleVersionError",
    "StopSchedulerError",
    "StoreClosedError",
    "StoreDamagedError",
    "StoreError",
    "StoreUnavailableError",
    "TaskInvalidStructureError",
    "TaskInvalidTypeError",
    "TaskInvalidValueError",
    "TaskListMismatchError",
    "TaskMissingFieldError",
    "TaskNotRegisteredError",
    "TaskTryDeserializeError",
    "TokenNotFoundError",
    "UnauthorizedError",
    "UnguardedAddressError",
    "UnknownDependencyError",
    "UnknownHostError",
    "UnknownPathError",
    "UnsupportedConnectionError",
    "UnsupportedMediaError",
    "WorkerBusyError",
    "WorkerForkedError",
]
