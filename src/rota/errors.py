"""Every error of Rota, grouped by who must act.

RotaError
  InvalidInputError   the caller must change the request
    InvalidTriggerError
      InvalidCronExpressionError
      InvalidRecurrenceRuleError
    AppUseError
    ClockUseError
    FieldParseError
    InvalidArgumentsError
    InvalidConfigurationError
    InvalidCursorError
    InvalidJobError
      UnknownDependencyError
    InvalidPayloadError
    InvalidRequestError
    InvalidSignatureError
    InvalidStoreUrlError
    InvalidZoneError
    MethodNotAllowedError
    RequestTooLargeError
    ResultTooLargeError
    RegistrationsNotArrayError
    RegistrationShapeError
    InvalidRegistrationError
    ScheduleDuplicateTaskError
    CronExpressionInvalidError
    NegativeRetryDelayError
    TaskDeclarationError
    UnguardedAddressError
    UnsupportedConnectionError
    UnsupportedMediaError
    WorkerForkedError
  NotFoundError       nothing has that name
    JobNotFoundError
    ScheduleNotFoundError
    SecretNotFoundError
    TaskNotRegisteredError
    TokenNotFoundError
    UnknownPathError
  ConflictError       the world moved on; read again
    AddressUnusableError
    AlreadyRetriedError
    DependenciesFixedError
    DependencyCycleError
    DuplicateJobError
    EffectInProgressError
    HasDependentsError
    IllegalMoveError
    JobChangedError
    JobEndedError
    LockLostError
    SchedulerAlreadyActiveError
    StaleVersionError
    TaskListMismatchError
    WorkerBusyError
  RefusedError        a limit or a gate said no
    CopyRefusedError
    CrossSiteRequestError
    EffectUnknownError
    ForbiddenAddressError
    ForbiddenError
    ForbiddenQueueError
    ForbiddenTenantError
    QuotaExceededError
    RequestTooSlowError
    UnauthorizedError
    UnknownHostError
  StoreError          the store is at fault
    CopyDiffersError
    CopyUnfinishedError
    DamagedJobError
    SchemaOutdatedError
    ServerUnavailableError
    StoreClosedError
    StoreDamagedError
    StoreUnavailableError
  BusyLoopError
  ChildCrashedError
  ChildError
  CronCalculationError
  DeadlockError
  DeliveryError
  JobCancelledError
  JobFailedError
  MissingExtraError
  NoOccurrenceError
  ResultTimeoutError
  ScheduleTaskError
  SchedulerInitializationError
  StopSchedulerError
  TaskTryDeserializeError
    TaskInvalidStructureError
    TaskInvalidTypeError
    TaskInvalidValueError
    TaskMissingFieldError
  WorkerWornOutError
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

__all__ = [
    "AddressUnusableError",
    "AlreadyRetriedError",
    "AppUseError",
    "BusyLoopError",
    "ChildCrashedError",
    "ChildError",
    "ClockUseError",
    "ConflictError",
    "CopyDiffersError",
    "CopyRefusedError",
    "CopyUnfinishedError",
    "CronCalculationError",
    "CronExpressionInvalidError",
    "CrossSiteRequestError",
    "DamagedJobError",
    "DeadlockError",
    "DeliveryError",
    "DependenciesFixedError",
    "DependencyCycleError",
    "DuplicateJobError",
    "EffectInProgressError",
    "EffectUnknownError",
    "FieldParseError",
    "ForbiddenAddressError",
    "ForbiddenError",
    "ForbiddenQueueError",
    "ForbiddenTenantError",
    "HasDependentsError",
    "IllegalMoveError",
    "InvalidArgumentsError",
    "InvalidConfigurationError",
    "InvalidCronExpressionError",
    "InvalidCursorError",
    "InvalidInputError",
    "InvalidJobError",
    "InvalidPayloadError",
    "InvalidRecurrenceRuleError",
    "InvalidRegistrationError",
    "InvalidRequestError",
    "InvalidSignatureError",
    "InvalidStoreUrlError",
    "InvalidTriggerError",
    "InvalidZoneError",
    "JobCancelledError",
    "JobChangedError",
    "JobEndedError",
    "JobFailedError",
    "JobNotFoundError",
    "LockLostError",
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
    "RequestTooSlowError",
    "ResultTimeoutError",
    "ResultTooLargeError",
    "RotaError",
    "ScheduleDuplicateTaskError",
    "ScheduleNotFoundError",
    "ScheduleTaskError",
    "SchedulerAlreadyActiveError",
    "SchedulerInitializationError",
    "SchemaOutdatedError",
    "SecretNotFoundError",
    "ServerUnavailableError",
    "StaleVersionError",
    "StopSchedulerError",
    "StoreClosedError",
    "StoreDamagedError",
    "StoreError",
    "StoreUnavailableError",
    "TaskDeclarationError",
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
    "WorkerWornOutError",
]


class RotaError(Exception):
    """Anything Rota refuses or fails to do.

    ``message`` is for people. ``details`` is for programs: its keys are part of the contract and
    spelled as the specification that names the error spells them.
    """

    group: ClassVar[str] = "error"

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})


class InvalidInputError(RotaError):
    """The caller must change the request; nothing has happened."""

    group = "invalid_input"


class NotFoundError(RotaError):
    """Nothing has that name."""

    group = "not_found"


class ConflictError(RotaError):
    """The state has changed; read again."""

    group = "conflict"


class RefusedError(RotaError):
    """A limit or a gate said no."""

    group = "refused"


class StoreError(RotaError):
    """The store is at fault."""

    group = "store"


class InvalidTriggerError(InvalidInputError):
    """The text is not a valid schedule; ``position`` is the half-open span of the invalid part."""

    def __init__(
        self, message: str, *, text: str, position: tuple[int, int], details: dict[str, object]
    ) -> None:
        super().__init__(message, details)
        self.text = text
        self.position = position


class FieldParseError(InvalidInputError):
    """One field of a cron expression could not be parsed; always the cause of another error."""

    def __init__(self, reason: str, *, field_value: str, field_name: str) -> None:
        super().__init__(reason, {"fieldValue": field_value, "fieldName": field_name})
        self.reason = reason
        self.field_value = field_value
        self.field_name = field_name


class InvalidCronExpressionError(InvalidTriggerError):
    """A cron expression is invalid; ``field`` is the leftmost invalid one, or "expression"."""

    def __init__(
        self, expression: str, field: str, reason: str, *, position: tuple[int, int] | None = None
    ) -> None:
        super().__init__(
            f'Invalid cron expression "{expression}": {field} field {reason}',
            text=expression,
            position=position if position is not None else (0, len(expression)),
            details={"expression": expression, "field": field, "reason": reason},
        )
        self.expression = expression
        self.field = field
        self.reason = reason


class InvalidRecurrenceRuleError(InvalidTriggerError):
    """The parser refused an RFC 5545 rule; ``part`` names the invalid part, such as BYDAY."""

    def __init__(
        self, text: str, part: str, reason: str, *, position: tuple[int, int] | None = None
    ) -> None:
        super().__init__(
            f'Invalid recurrence rule "{text}": {part} {reason}',
            text=text,
            position=position if position is not None else (0, len(text)),
            details={"rule": text, "part": part, "reason": reason},
        )
        self.part = part
        self.reason = reason


class InvalidZoneError(InvalidInputError):
    """No time zone has that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f'Unknown time zone "{name}"', {"zone": name})
        self.name = name


class CronCalculationError(RotaError):
    """A valid expression has no occurrence on that side of the instant within the calendar."""

    def __init__(self, expression: str, current_time: datetime, cause: Exception) -> None:
        super().__init__(
            f"Failed to calculate next occurrence: {cause}",
            {"expression": expression, "currentTime": current_time.isoformat(), "cause": cause},
        )
        self.expression = expression
        self.current_time = current_time
        self.cause = cause


class NoOccurrenceError(RotaError):
    """The search reached the end of the calendar or of its budget without an occurrence."""


class ClockUseError(InvalidInputError):
    """A clock was used in an unsupported way, such as a virtual one by two drivers."""


class DeadlockError(RotaError):
    """Every task waits, and nothing can wake one: no timer, no work in flight.

    ``tasks`` says which line each waits at.
    """

    def __init__(self, now: datetime, tasks: Sequence[str]) -> None:
        super().__init__(
            f"Deadlock at {now.isoformat()}: every task waits, no timer is set and nothing is in "
            "flight. (A wait for a thread or a socket must be inside `with in_flight():`, and a "
            f"wait for time must go through the clock.){_listed(tasks)}",
            {"now": now.isoformat(), "tasks": list(tasks)},
        )
        self.now = now
        self.tasks = tuple(tasks)


class BusyLoopError(RotaError):
    """The event loop never became idle, so virtual time could not move.

    Some task yields in a loop instead of waiting; ``tasks`` says where each is.
    """

    def __init__(self, now: datetime, turn_count: int, tasks: Sequence[str]) -> None:
        super().__init__(
            f"The event loop did not come to rest at {now.isoformat()} within {turn_count} turns: "
            f"a task yields in a loop instead of waiting.{_listed(tasks)}",
            {"now": now.isoformat(), "turnCount": turn_count, "tasks": list(tasks)},
        )
        self.now = now
        self.turn_count = turn_count
        self.tasks = tuple(tasks)


def _listed(tasks: Sequence[str]) -> str:
    return "".join(f"\n  {task}" for task in tasks)


class InvalidConfigurationError(InvalidInputError):
    """Environment variables have invalid values; all of them are named at once."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        listed = "; ".join(f"{name} {reason}" for name, reason in problems.items())
        super().__init__(
            f"Invalid configuration: {listed}",
            {"field": next(iter(problems)), "problems": dict(problems)},
        )
        self.problems = dict(problems)


class MissingExtraError(RotaError):
    """A feature needs a package that is not installed."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(
            f"{purpose} need {package}, which is not installed: pip install 'rota[{extra}]'",
            {"missing": package, "extra": f"rota[{extra}]"},
        )
        self.package = package
        self.extra = extra


class InvalidJobError(InvalidInputError):
    """A job request is invalid; ``field`` says where, ``reason`` why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}", {"field": field, "reason": reason})
        self.field = field
        self.reason = reason


class AppUseError(InvalidInputError):
    """An app was used in an unsupported way, such as outside of ``async with app``."""


class ChildCrashedError(RotaError):
    """A child process ended before its job did. The job has failed; others are not affected."""

    def __init__(self, how: str) -> None:
        super().__init__(f"The child process {how}", {"how": how})
        self.how = how


class ChildError(RotaError):
    """A function raised an exception in a child process.

    Its class has the name of the exception's class, and its cause shows the traceback of the child.
    """

    @classmethod
    def make(cls, kind: str, text: str, traceback: str) -> "ChildError":
        """The error for an exception of the class ``kind``."""
        error: ChildError = type(kind, (cls,), {"__module__": __name__})(text)
        error.__cause__ = ChildTraceback(traceback)
        return error


class ChildTraceback(Exception):  # noqa: N818 - it is not raised: it shows where another was
    """The traceback of an exception in a child process, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"in the child process:\n{self.text.rstrip()}\n"


class TaskDeclarationError(InvalidInputError):
    """A function cannot be a task; ``location`` is its file and line."""

    def __init__(self, function: str, location: str, reason: str) -> None:
        super().__init__(
            f"{function} at {location}: {reason}",
            {"function": function, "location": location, "reason": reason},
        )
        self.function = function
        self.location = location
        self.reason = reason


class ScheduleNotFoundError(NotFoundError):
    """The tenant has no schedule with that name."""

    def __init__(self, name: str, tenant: str) -> None:
        super().__init__(
            f'Tenant "{tenant}" has no schedule named "{name}"',
            {"schedule": name, "tenant": tenant},
        )
        self.name = name
        self.tenant = tenant


class InvalidArgumentsError(InvalidInputError):
    """The arguments of a task do not fit its signature.

    ``argument`` is the path of the first that does not, such as ``user.age``; None if it is the
    call as a whole.
    """

    def __init__(self, task: str, argument: str | None, reason: str) -> None:
        where = "" if argument is None else f"{argument}: "
        super().__init__(
            f"{task}: {where}{reason}", {"task": task, "field": argument, "reason": reason}
        )
        self.task = task
        self.argument = argument
        self.reason = reason


class JobFailedError(RotaError):
    """The job whose result was awaited has failed, or can no longer run.

    ``error`` and ``traceback`` are those of its last attempt, as text.
    """

    def __init__(self, job_id: str, error: str, traceback: str | None = None) -> None:
        super().__init__(f"Job {job_id} failed: {error}", {"jobId": job_id, "error": error})
        self.job_id = job_id
        self.error = error
        self.traceback = traceback


class JobCancelledError(RotaError):
    """The job whose result was awaited was cancelled."""

    def __init__(self, job_id: str, reason: str | None = None) -> None:
        why = f": {reason}" if reason else ""
        super().__init__(f"Job {job_id} was cancelled{why}", {"jobId": job_id, "reason": reason})
        self.job_id = job_id
        self.reason = reason


class ResultTimeoutError(RotaError):
    """The job has not ended in time. It goes on; the result can be awaited again."""

    def __init__(self, job_id: str, waited_for: timedelta) -> None:
        seconds = waited_for.total_seconds()
        super().__init__(
            f"Job {job_id} has not ended within {seconds:g} s",
            {"jobId": job_id, "seconds": seconds},
        )
        self.job_id = job_id
        self.waited_for = waited_for


class UnknownDependencyError(InvalidJobError):
    """A job names dependencies that do not exist."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__("dependencies", f"name jobs that do not exist: {', '.join(missing)}")
        self.missing = list(missing)
        self.details["missing"] = self.missing


class InvalidCursorError(InvalidInputError):
    """The text is not a cursor of a job list."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"cursor {reason}", {"field": "cursor", "reason": reason})
        self.reason = reason


class DependencyCycleError(ConflictError):
    """The dependencies form a cycle; ``cycle_path`` names its jobs."""

    def __init__(self, cycle_path: Sequence[str]) -> None:
        way = " -> ".join([*cycle_path, cycle_path[0]])
        super().__init__(f"Circular dependency: {way}", {"cyclePath": list(cycle_path)})
        self.cycle_path = list(cycle_path)


class IllegalMoveError(ConflictError):
    """A job cannot go from its current status to the requested one."""

    def __init__(self, current: str, target: str, reason: str | None = None) -> None:
        why = f": {reason}" if reason else ""
        super().__init__(
            f"A job cannot move from {current} to {target}{why}",
            {"current": str(current), "target": str(target)},
        )
        self.current = current
        self.target = target
        self.reason = reason


class JobEndedError(ConflictError):
    """The job has reached a final status and cannot change."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(
            f"Job {job_id} is {status}, which is final", {"jobId": job_id, "status": str(status)}
        )
        self.job_id = job_id
        self.status = status


class AlreadyRetriedError(ConflictError):
    """The job was retried before, as ``replacement_id``; other values would have no effect."""

    def __init__(self, job_id: str, replacement_id: str) -> None:
        super().__init__(
            f"Job {job_id} has been retried already, by {replacement_id}: change or duplicate that "
            "one",
            {"jobId": job_id, "replacementId": replacement_id},
        )
        self.job_id = job_id
        self.replacement_id = replacement_id


class JobChangedError(ConflictError):
    """The job has changed since it was read; ``updated_at`` is its last change."""

    def __init__(self, job_id: str, updated_at: str) -> None:
        super().__init__(
            f"Job {job_id} was changed at {updated_at}, after it was read",
            {"field": "updated_at", "value": updated_at},
        )
        self.job_id = job_id
        self.updated_at = updated_at


class DependenciesFixedError(ConflictError):
    """A job's dependencies can change only while it waits for them."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(
            f"The dependencies of job {job_id} cannot change: it is {status}, no longer PENDING",
            {"jobId": job_id, "status": str(status)},
        )
        self.job_id = job_id
        self.status = status


class HasDependentsError(ConflictError):
    """The job cannot be deleted: other jobs depend on it."""

    def __init__(self, job_id: str, dependents: Sequence[str]) -> None:
        super().__init__(
            f"Job {job_id} cannot be deleted: {len(dependents)} depend on it, such as "
            f"{dependents[0]}",
            {"jobId": job_id, "dependents": list(dependents)},
        )
        self.job_id = job_id
        self.dependents = list(dependents)


class DuplicateJobError(ConflictError):
    """The request clashes with an existing job; ``job_id`` is that job."""

    def __init__(self, job_id: str, reason: str) -> None:
        super().__init__(f"Job {job_id} exists already: {reason}", {"jobId": job_id})
        self.job_id = job_id
        self.reason = reason


class JobNotFoundError(NotFoundError):
    """The tenant has no job with that id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"There is no job {job_id}", {"jobId": job_id})
        self.job_id = job_id


class DamagedJobError(StoreError):
    """A stored job cannot be read. It is left untouched; others are not affected."""

    def __init__(self, job_id: str | None, reason: str) -> None:
        super().__init__(
            f"Stored job {job_id or 'without an id'} cannot be read: {reason}",
            {"jobId": job_id, "reason": reason},
        )
        self.job_id = job_id
        self.reason = reason


class EffectInProgressError(ConflictError):
    """Another caller is performing the effect; ``until`` is when its claim expires."""

    def __init__(self, tenant: str, key: str, until: datetime) -> None:
        super().__init__(
            f'Effect "{key}" is being performed elsewhere, until {until.isoformat()} at least',
            {"tenant": tenant, "key": key, "until": until.isoformat()},
        )
        self.tenant = tenant
        self.key = key
        self.until = until


class EffectUnknownError(RefusedError):
    """It is unknown whether the effect happened, and it must not happen twice.

    Once it is known, call ``Ledger.forget`` or ``Ledger.confirm``.
    """

    def __init__(self, tenant: str, key: str, started_at: datetime) -> None:
        super().__init__(
            f'Effect "{key}" began at {started_at.isoformat()}, and it is unknown whether it '
            "happened",
            {"tenant": tenant, "key": key, "startedAt": started_at.isoformat()},
        )
        self.tenant = tenant
        self.key = key
        self.started_at = started_at


class RegistrationsNotArrayError(InvalidInputError):
    def __init__(self) -> None:
        super().__init__("Registrations must be an array")


class RegistrationShapeError(InvalidInputError):
    """A registration has the wrong length, or a part of it the wrong type."""

    def __init__(self, registration_index: int, received: object) -> None:
        super().__init__(
            "Invalid registration shape: expected [string, string, function, Duration]",
            {"registrationIndex": registration_index, "received": received},
        )
        self.registration_index = registration_index
        self.received = received


class InvalidRegistrationError(InvalidInputError):
    """A registration has the right shape but an invalid value."""

    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(
            f"Invalid registration: {field} {reason}",
            {"field": field, "value": value, "reason": reason},
        )
        self.field = field
        self.value = value
        self.reason = reason


class ScheduleDuplicateTaskError(InvalidInputError):
    def __init__(self, task_name: str) -> None:
        super().__init__(
            f'Task with name "{task_name}" is already scheduled', {"taskName": task_name}
        )
        self.task_name = task_name


class CronExpressionInvalidError(InvalidInputError):
    """A registration's expression was refused; the parser's own error is the cause."""

    def __init__(self, expression: str, field: str, reason: str) -> None:
        super().__init__(
            f'Invalid cron expression "{expression}": {field} field {reason}',
            {"expression": expression, "field": field, "reason": reason},
        )
        self.expression = expression
        self.field = field
        self.reason = reason


class NegativeRetryDelayError(InvalidInputError):
    def __init__(self, retry_delay_ms: float) -> None:
        super().__init__("Retry delay must be non-negative", {"retryDelayMs": retry_delay_ms})
        self.retry_delay_ms = retry_delay_ms


class SchedulerAlreadyActiveError(ConflictError):
    """``initialize()`` was called on an active scheduler; nothing has changed."""

    def __init__(self, current_state: str) -> None:
        super().__init__(
            f"Cannot initialize scheduler: scheduler is already {current_state}",
            {"currentState": current_state},
        )
        self.current_state = current_state


class SchedulerInitializationError(RotaError):
    """The store failed while tasks were being read; its content is unchanged."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"Failed to initialize scheduler: {cause}", {"cause": cause})
        self.cause = cause


class ScheduleTaskError(RotaError):
    """The tasks could not be written together; the earlier tasks are unchanged."""

    def __init__(self, name: str, cron_expression: str, cause: BaseException) -> None:
        super().__init__(
            f"Failed to schedule task '{name}': {cause}",
            {"name": name, "cronExpression": cron_expression, "cause": cause},
        )
        self.name = name
        self.cron_expression = cron_expression
        self.cause = cause


class StopSchedulerError(RotaError):
    """The scheduler has stopped, but some runs could not be completed."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"Failed to stop scheduler: {cause}", {"cause": cause})
        self.cause = cause


class TaskListMismatchError(ConflictError):
    """Other instances kept changing the stored tasks during reconciliation."""

    def __init__(self, expected: Sequence[Any], actual: Sequence[Any]) -> None:
        super().__init__(
            "Persisted tasks changed while they were being brought in line with the registrations",
            {"expected": list(expected), "actual": list(actual)},
        )
        self.expected = list(expected)
        self.actual = list(actual)


class TaskNotRegisteredError(NotFoundError):
    """The task is neither registered nor stored."""

    def __init__(self, name: str) -> None:
        super().__init__(f'No task is named "{name}"', {"taskName": name})
        self.name = name


class TaskTryDeserializeError(RotaError):
    """A stored task record cannot be read. It is quarantined; the others are not affected."""

    def __init__(self, message: str, details: dict[str, Any]) -> None:
        super().__init__(message, details)
        self.field: str | None = details.get("field")
        self.value: Any = details.get("value")
        self.expected_type: str | None = details.get("expectedType")


class TaskMissingFieldError(TaskTryDeserializeError):
    def __init__(self, field: str) -> None:
        super().__init__(f"Missing required field: {field}", {"field": field})


class TaskInvalidTypeError(TaskTryDeserializeError):
    def __init__(self, field: str, value: object, expected_type: str, actual_type: str) -> None:
        super().__init__(
            f"Invalid type for field '{field}': expected {expected_type}, got {actual_type}",
            {
                "field": field,
                "value": value,
                "expectedType": expected_type,
                "actualType": actual_type,
            },
        )
        self.actual_type = actual_type


class TaskInvalidValueError(TaskTryDeserializeError):
    def __init__(self, field: str, value: object, reason: str) -> None:
        super().__init__(
            f"Invalid value for field '{field}': {reason}",
            {"field": field, "value": value, "reason": reason},
        )
        self.reason = reason


class TaskInvalidStructureError(TaskTryDeserializeError):
    def __init__(self, message: str, value: object) -> None:
        super().__init__(message, {"value": value})


class WorkerBusyError(ConflictError):
    """The worker is already running."""

    def __init__(self) -> None:
        super().__init__("This worker is running already")


class WorkerWornOutError(RotaError):
    """Handlers that do not end have taken every place of a worker: restart the process."""

    def __init__(self, leaked_count: int) -> None:
        super().__init__(
            f"The worker is worn out: {leaked_count} handlers were cut short and go on all the "
            "same. Its jobs were handed back; start the process anew",
            {"leakedCount": leaked_count},
        )
        self.leaked_count = leaked_count


class WorkerForkedError(InvalidInputError):
    """A worker was used in another process than the one that created it."""

    def __init__(self, made_in: int, used_in: int) -> None:
        super().__init__(
            f"This worker was made in process {made_in} and cannot be used in process {used_in}: "
            "threads and connections do not survive a fork; open the store and make the worker "
            "afterwards",
            {"madeIn": made_in, "usedIn": used_in},
        )
        self.made_in = made_in
        self.used_in = used_in


class InvalidPayloadError(InvalidInputError):
    """The payload of a built-in kind is invalid; a retry would not help."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}", {"field": field, "reason": reason})
        self.field = field
        self.reason = reason


class InvalidSignatureError(InvalidInputError):
    """A message was not signed with a known secret, or is too old: do not act on it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The signature cannot be trusted: {reason}", {"reason": reason})
        self.reason = reason


class SecretNotFoundError(NotFoundError):
    """A job names a secret that the worker does not have."""

    def __init__(self, tenant: str, name: str) -> None:
        super().__init__(
            f"There is no secret {name!r} for tenant {tenant!r}", {"tenant": tenant, "secret": name}
        )
        self.tenant = tenant
        self.secret = name


class ForbiddenAddressError(RefusedError):
    """A request would have gone to a forbidden address, such as a private network.

    The message does not name the address: the caller need not learn how names resolve here.
    """

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"No request may go to {host}: {reason}", {"host": host, "reason": reason})
        self.host = host
        self.reason = reason


class DeliveryError(RotaError):
    """Another program could not be reached or refused the request; a retry may succeed."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(
            reason, {"reason": reason} | ({} if status is None else {"status": status})
        )
        self.reason = reason
        self.status = status


class LockLostError(ConflictError):
    """A document was processed for longer than its lock, and another process has it now.

    It has been, or will be, processed again; nothing more was written for this run. Use a longer
    ``lock_duration``.
    """

    def __init__(self, job_id: object, lock_until: datetime) -> None:
        super().__init__(
            f"The lock on {job_id} ran out at {lock_until.isoformat()}, before it was processed",
            {"jobId": str(job_id), "lockUntil": lock_until.isoformat()},
        )
        self.job_id = job_id
        self.lock_until = lock_until


_PASSWORD = re.compile(r"(://[^/@:]*:)[^/]*@")


class StaleVersionError(ConflictError):
    """A document changed between reading and writing; nothing was written."""

    def __init__(self, collection: str, key: str, expected: int | None) -> None:
        super().__init__(
            f'Document "{key}" in "{collection}" is no longer at version {expected}',
            {"collection": collection, "key": key, "expected": expected},
        )
        self.collection = collection
        self.key = key
        self.expected = expected


class StoreUnavailableError(StoreError):
    """The store cannot be reached, or refuses requests, for now."""


class StoreClosedError(StoreError):
    """The store was closed; open it again."""

    def __init__(self) -> None:
        super().__init__("The store is closed")


class UnsupportedConnectionError(InvalidInputError):
    """The store cannot write through the caller's connection."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"The store cannot take part in this transaction: {reason}",
            {"field": "connection", "reason": reason},
        )


class SchemaOutdatedError(StoreError):
    """The store's schema and this program do not match."""


class StoreDamagedError(StoreError):
    """The store's file is damaged; nothing was changed in it."""


class CopyRefusedError(RefusedError):
    """Nothing was copied: the source is in use, or the target is not empty."""


class CopyUnfinishedError(StoreError):
    """The store is an unfinished copy and cannot be used until the copy completes."""

    def __init__(self, source: str) -> None:
        super().__init__(
            f"A copy from {source} into this store was begun and is not finished: repeat the "
            "copy, which goes on where it was, or empty the store",
            {"source": source},
        )
        self.source = source


class CopyDiffersError(StoreError):
    """The copy differs from the source; ``differences`` names the first differences."""

    def __init__(self, differences: Sequence[str]) -> None:
        super().__init__(
            f"The copy is not equal to the source: {'; '.join(differences)}. If other programs "
            "wrote to one of them meanwhile, stop them, empty the target and copy again",
            {"differences": list(differences)},
        )
        self.differences = tuple(differences)


class InvalidStoreUrlError(InvalidInputError):
    """The address does not name a store that Rota can open."""

    def __init__(self, url: str, reason: str) -> None:
        shown = hide_password(url)
        super().__init__(
            f'Invalid store address "{shown}": {reason}', {"url": shown, "reason": reason}
        )
        self.url = shown
        self.reason = reason


def invalid(field: str, reason: str) -> InvalidInputError:
    """The error for a field whose value must change, such as ``count must be at least 1``."""
    return InvalidInputError(f"{field} {reason}", {"field": field, "reason": reason})


def describe_error(error: BaseException) -> str:
    """The type and the message of an error whose own code may fail."""
    try:
        text = str(error)
    except Exception as failure:  # noqa: BLE001 - a handler's error may raise anything
        text = f"(no text: {type(failure).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def hide_password(url: str) -> str:
    """The address without its password, for messages and logs."""
    return _PASSWORD.sub(r"\1***@", url)


class TokenNotFoundError(NotFoundError):
    """No token has that id, as far as the caller may know.

    The id is not repeated: a token mistaken for its id must not reach a log.
    """

    def __init__(self) -> None:
        super().__init__("No token has that id")


class UnauthorizedError(RefusedError):
    """The credentials are missing or not valid.

    The same for a token that is unknown, revoked, expired or mistyped: only its owner may learn
    why.
    """

    def __init__(self) -> None:
        super().__init__("A valid token is needed, as in Authorization: Bearer rota_...")


class ForbiddenError(RefusedError):
    """The caller is known but lacks a permission; ``scope`` is the one needed."""

    def __init__(self, scope: str) -> None:
        super().__init__(f'This needs a token with the scope "{scope}"', {"scope": scope})
        self.scope = scope


class ForbiddenTenantError(RefusedError):
    """The request is about all tenants; ``tenant`` is the one whose admins may make it."""

    def __init__(self, tenant: str) -> None:
        super().__init__(
            f'This needs a token with the scope "admin" of the tenant "{tenant}"',
            {"tenant": tenant},
        )
        self.tenant = tenant


class ForbiddenQueueError(RefusedError):
    """The caller's token is for some queues only, and the request is about others.

    ``queue`` is None where a request is not about single queues.
    """

    def __init__(self, queues: Iterable[str], queue: str | None = None) -> None:
        self.queues, self.queue = tuple(sorted(queues)), queue
        allowed = ", ".join(f'"{each}"' for each in self.queues)
        wanted = "this needs a token for all queues" if queue is None else f'not for "{queue}"'
        details = {"queues": list(self.queues), "queue": queue}
        super().__init__(f"This token is for the queues {allowed} only; {wanted}", details)


class CrossSiteRequestError(RefusedError):
    """A browser sent a change that did not come from a page of this service."""

    def __init__(self) -> None:
        super().__init__("A change must come from a page of this service")


class UnknownHostError(RefusedError):
    """A request names a host that this service does not serve."""

    def __init__(self, host: str) -> None:
        super().__init__(f'This service does not answer for the host "{host}"', {"host": host})
        self.host = host


class QuotaExceededError(RefusedError):
    """Too many requests in too short a time, or too much is already waiting.

    ``retry_after`` is the number of seconds after which a retry makes sense.
    """

    def __init__(self, message: str, quota: str, retry_after: int) -> None:
        super().__init__(message, {"quota": quota, "retry_after": retry_after})
        self.quota = quota
        self.retry_after = retry_after


class RequestTooSlowError(RefusedError):
    """The body of a request did not arrive in time."""

    def __init__(self, within: timedelta) -> None:
        seconds = within.total_seconds()
        super().__init__(
            f"The body must arrive within {seconds:g} s", {"field": "body", "within": seconds}
        )
        self.within = within


class UnguardedAddressError(InvalidInputError):
    """A service without authentication would be reachable from other hosts."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f'Other hosts reach "{host}", and no token would be required: '
            "listen on 127.0.0.1, or leave authentication on",
            {"field": "host", "value": host},
        )
        self.host = host


class InvalidRequestError(InvalidInputError):
    """A request cannot be parsed; ``field`` says where, ``reason`` why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}", {"field": field, "reason": reason})
        self.field = field
        self.reason = reason


class RequestTooLargeError(InvalidInputError):
    """The body of a request is longer than ``limit`` bytes; the rest was not read."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"body must not be longer than {limit} bytes", {"field": "body", "limit": limit}
        )
        self.limit = limit


class ResultTooLargeError(InvalidInputError):
    """What a handler returned has more than ``limit`` bytes as JSON, and is not kept."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the result has {size} bytes of JSON, {limit} are the most; store it elsewhere and "
            "return where it is",
            {"field": "result", "size": size, "limit": limit},
        )
        self.size = size
        self.limit = limit


class UnsupportedMediaError(InvalidInputError):
    """The body of a request has an unsupported format; ``field`` is the header."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}", {"field": field, "reason": reason})
        self.field = field
        self.reason = reason


class MethodNotAllowedError(InvalidInputError):
    """The path exists but does not support the method."""

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.method = method
        self.allowed = sorted(allowed)
        super().__init__(
            f"{method} is not possible here, only {', '.join(self.allowed)}",
            {"field": "method", "allowed": self.allowed},
        )


class UnknownPathError(NotFoundError):
    """Nothing is served under that path."""

    def __init__(self, path: str) -> None:
        super().__init__(f"There is nothing under {path[:200]}")
        self.path = path


class AddressUnusableError(ConflictError):
    """The service cannot listen on the address: usually another program already does."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"Cannot listen on {host} port {port}: {reason}",
            {"host": host, "port": port, "reason": reason},
        )
        self.host = host
        self.port = port
        self.reason = reason


class ServerUnavailableError(StoreError):
    """A server did not answer, or not as a Rota server does."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"The server at {url} {reason}", {"url": url, "reason": reason})
        self.url = url
        self.reason = reason
