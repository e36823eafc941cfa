"""What can be wrong with the text of a trigger, and with asking it for an occurrence."""

from datetime import datetime

from rota.errors.groups import InvalidInputError, RotaError


class InvalidTriggerError(InvalidInputError):
    """The text says no schedule; ``position`` is the half-open span of the offending part."""

    def __init__(
        self, message: str, *, text: str, position: tuple[int, int], details: dict[str, object]
    ) -> None:
        super().__init__(message, details)
        self.text = text
        self.position = position


class FieldParseError(InvalidInputError):
    """One field of a cron expression could not be read; always the cause of another error."""

    def __init__(self, reason: str, *, field_value: str, field_name: str) -> None:
        super().__init__(reason, {"fieldValue": field_value, "fieldName": field_name})
        self.reason = reason
        self.field_value = field_value
        self.field_name = field_name


class InvalidCronExpressionError(InvalidTriggerError):
    """The parser refused a cron expression; ``field`` is the leftmost bad one, or "expression"."""

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
    """The parser refused an RFC 5545 rule; ``part`` names the offending one, such as BYDAY."""

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
    """The search reached the end of the calendar or of its budget without finding one."""
