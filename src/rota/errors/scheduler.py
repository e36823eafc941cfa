"""The errors specifications 1 and 2 name, with their messages and details to the letter."""

from collections.abc import Sequence
from typing import Any

from rota.errors.groups import ConflictError, InvalidInputError, NotFoundError, RotaError


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
    """A registration has the right shape, but a value that cannot be accepted."""

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
    """``initialize()`` was called while the scheduler was already at it; nothing has changed."""

    def __init__(self, current_state: str) -> None:
        super().__init__(
            f"Cannot initialize scheduler: scheduler is already {current_state}",
            {"currentState": current_state},
        )
        self.current_state = current_state


class SchedulerInitializationError(RotaError):
    """The store failed while the tasks were being read; what it holds is untouched."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"Failed to initialize scheduler: {cause}", {"cause": cause})
        self.cause = cause


class ScheduleTaskError(RotaError):
    """The tasks could not be written together; what was stored before still stands."""

    def __init__(self, name: str, cron_expression: str, cause: BaseException) -> None:
        super().__init__(
            f"Failed to schedule task '{name}': {cause}",
            {"name": name, "cronExpression": cron_expression, "cause": cause},
        )
        self.name = name
        self.cron_expression = cron_expression
        self.cause = cause


class StopSchedulerError(RotaError):
    """The scheduler has stopped, but not everything could be brought to its end."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"Failed to stop scheduler: {cause}", {"cause": cause})
        self.cause = cause


class TaskListMismatchError(ConflictError):
    """Others kept changing the stored tasks while they were being brought in line."""

    def __init__(self, expected: Sequence[Any], actual: Sequence[Any]) -> None:
        super().__init__(
            "Persisted tasks changed while they were being brought in line with the registrations",
            {"expected": list(expected), "actual": list(actual)},
        )
        self.expected = list(expected)
        self.actual = list(actual)


class TaskNotRegisteredError(NotFoundError):
    """A question about a task that neither the registrations nor the store know."""

    def __init__(self, name: str) -> None:
        super().__init__(f'No task is named "{name}"', {"taskName": name})
        self.name = name


class TaskTryDeserializeError(RotaError):
    """A stored task record cannot be read. It is set aside; the others are not affected."""

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
