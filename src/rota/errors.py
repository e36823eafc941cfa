"""Every error of Rota, in groups that say who must act.

A class is its fields and the template of its message. ``docs/reference/errors.md`` lists all.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_origin


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

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, vars(self))


def _restore(kind: type[RotaError], args: tuple[Any, ...], fields: Mapping[str, Any]) -> RotaError:
    """The copy of an error."""
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    return error


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


_Error = TypeVar("_Error", bound=RotaError)
_NEXT_WORD = re.compile(r"_([a-z])")
_SHOWN_AS: Mapping[Any, Callable[[Any], Any]] = {
    datetime: datetime.isoformat,
    timedelta: timedelta.total_seconds,
    str: lambda value: str(value) if isinstance(value, str) else value,  # not an enumeration
}
"""How a field of a type is shown; others as they are."""


@dataclass_transform()
def template(text: str, details: str | None = None) -> Callable[[type[_Error]], type[_Error]]:
    """Make the annotated fields of an error class its parameters and its attributes.

    ``text`` is the message, with names of attributes in braces. ``details`` lists the attributes
    that programs get, by default all fields. A key is the name in camel case; ``key=name`` says
    another one. Message and details show instants as ISO 8601 text and durations in seconds.
    Sequences are kept as lists.
    """

    def declare(kind: type[_Error]) -> type[_Error]:
        types = {name: _find_type(it) for name, it in kind.__annotations__.items()}
        fields = {name: it for name, it in types.items() if it is not ClassVar}
        keys = dict(map(_read_key, fields if details is None else details.split()))

        def initialize(self: _Error, *args: Any, **kwargs: Any) -> None:
            vars(self).update(_bind(kind, fields, args, kwargs))
            shown = _Shown(self, fields)
            RotaError.__init__(
                self, text.format_map(shown), {key: shown[name] for key, name in keys.items()}
            )

        kind.__init__ = initialize  # type: ignore[method-assign,assignment] # the declared fields
        return kind

    return declare


def _find_type(annotation: Any) -> Any:
    """The class of an annotation without its parameters."""
    return get_origin(annotation) or annotation


def _read_key(item: str) -> tuple[str, str]:
    key, _, name = item.rpartition("=")
    return key or _NEXT_WORD.sub(lambda found: found[1].upper(), name), name


def _bind(
    kind: type[RotaError], fields: Mapping[str, Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The values that are given. A default is an attribute of the class."""
    given = dict(zip(fields, args, strict=False)) | kwargs
    is_complete = all(name in given or hasattr(kind, name) for name in fields)
    if not is_complete or len(given) < len(args) + len(kwargs) or given.keys() - fields.keys():
        raise TypeError(f"{kind.__name__} takes {', '.join(fields)}; got {args} and {kwargs}")
    return {name: list(it) if fields[name] is Sequence else it for name, it in given.items()}


class _Shown(dict[str, Any]):
    """The attributes of an error, as its message and details show them."""

    def __init__(self, error: RotaError, fields: Mapping[str, Any]) -> None:
        super().__init__()
        self._error, self._fields = error, fields

    def __missing__(self, name: str) -> Any:
        value, show = getattr(self._error, name), _SHOWN_AS.get(self._fields.get(name))
        return value if show is None else show(value)


class InvalidTriggerError(InvalidInputError):
    """The text is not a valid schedule; ``position`` is the half-open span of the invalid part."""

    def __init__(
        self, message: str, details: Mapping[str, Any], text: str, position: tuple[int, int] | None
    ) -> None:
        super().__init__(message, details)
        self.text = text
        self.position = (0, len(text)) if position is None else position


class InvalidCronExpressionError(InvalidTriggerError):
    """A cron expression is invalid; ``field`` is the leftmost invalid one, or "expression"."""

    def __init__(
        self, expression: str, field: str, reason: str, *, position: tuple[int, int] | None = None
    ) -> None:
        message = f'Invalid cron expression "{expression}": {field} field {reason}'
        details = {"expression": expression, "field": field, "reason": reason}
        super().__init__(message, details, expression, position)
        self.expression = expression
        self.field = field
        self.reason = reason


class InvalidRecurrenceRuleError(InvalidTriggerError):
    """The parser refused an RFC 5545 rule; ``part`` names the invalid part, such as BYDAY."""

    def __init__(
        self, text: str, part: str, reason: str, *, position: tuple[int, int] | None = None
    ) -> None:
        message = f'Invalid recurrence rule "{text}": {part} {reason}'
        super().__init__(message, {"rule": text, "part": part, "reason": reason}, text, position)
        self.part = part
        self.reason = reason


@template("{reason}", "field_value field_name")
class FieldParseError(InvalidInputError):
    """One field of a cron expression could not be parsed; always the cause of another error."""

    reason: str
    field_value: str
    field_name: str


@template('Unknown time zone "{name}"', "zone=name")
class InvalidZoneError(InvalidInputError):
    """No time zone has that name."""

    name: str


@template("Failed to calculate next occurrence: {cause}")
class CronCalculationError(RotaError):
    """A valid expression has no occurrence on that side of the instant within the calendar."""

    expression: str
    current_time: datetime
    cause: Exception


class NoOccurrenceError(RotaError):
    """The search reached the end of the calendar or of its budget without an occurrence."""


class ClockUseError(InvalidInputError):
    """A clock was used in an unsupported way, such as a virtual one by two drivers."""


@template(
    "Deadlock at {now}: every task waits, no timer is set and nothing is in flight. (A wait for a "
    "thread or a socket must be inside `with in_flight():`, and a wait for time must go through "
    "the clock.){listing}",
    "now tasks",
)
class DeadlockError(RotaError):
    """Every task waits, and nothing can wake one: no timer, no work in flight.

    ``tasks`` says which line each waits at.
    """

    now: datetime
    tasks: Sequence[str]

    @property
    def listing(self) -> str:
        return "".join(f"\n  {task}" for task in self.tasks)


@template(
    "The event loop did not come to rest at {now} within {turn_count} turns: a task yields in a "
    "loop instead of waiting.{listing}"
)
class BusyLoopError(RotaError):
    """The event loop never became idle, so virtual time could not move.

    Some task yields in a loop instead of waiting; ``tasks`` says where each is.
    """

    now: datetime
    turn_count: int
    tasks: Sequence[str]

    @property
    def listing(self) -> str:
        return "".join(f"\n  {task}" for task in self.tasks)


@template("Invalid configuration: {listing}", "field problems")
class InvalidConfigurationError(InvalidInputError):
    """Environment variables have invalid values; all of them are named at once."""

    problems: Mapping[str, str]

    @property
    def field(self) -> str:
        return next(iter(self.problems))

    @property
    def listing(self) -> str:
        return "; ".join(f"{name} {reason}" for name, reason in self.problems.items())


@template(
    "{purpose} need {package}, which is not installed: pip install 'rota[{extra}]'",
    "missing=package extra=requirement",
)
class MissingExtraError(RotaError):
    """A feature needs a package that is not installed."""

    purpose: str
    package: str
    extra: str

    @property
    def requirement(self) -> str:
        return f"rota[{self.extra}]"


@template("{field} {reason}")
class InvalidJobError(InvalidInputError):
    """A job request is invalid; ``field`` says where, ``reason`` why."""

    field: str
    reason: str


class UnknownDependencyError(InvalidJobError):
    """A job names dependencies that do not exist."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__("dependencies", f"name jobs that do not exist: {', '.join(missing)}")
        self.missing = list(missing)
        self.details["missing"] = self.missing


class AppUseError(InvalidInputError):
    """An app was used in an unsupported way, such as outside of ``async with app``."""


@template("The child process {how}")
class ChildCrashedError(RotaError):
    """A child process ended before its job did. The job has failed; others are not affected."""

    how: str


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


@template("{function} at {location}: {reason}")
class TaskDeclarationError(InvalidInputError):
    """A function cannot be a task; ``location`` is its file and line."""

    function: str
    location: str
    reason: str


@template('Tenant "{tenant}" has no schedule named "{name}"', "schedule=name tenant")
class ScheduleNotFoundError(NotFoundError):
    """The tenant has no schedule with that name."""

    name: str
    tenant: str


@template("{task}: {where}{reason}", "task field=argument reason")
class InvalidArgumentsError(InvalidInputError):
    """The arguments of a task do not fit its signature.

    ``argument`` is the path of the first that does not, such as ``user.age``; None if it is the
    call as a whole.
    """

    task: str
    argument: str | None
    reason: str

    @property
    def where(self) -> str:
        return "" if self.argument is None else f"{self.argument}: "


@template("Job {job_id} failed: {error}", "job_id error")
class JobFailedError(RotaError):
    """The job whose result was awaited has failed, or can no longer run.

    ``error`` and ``traceback`` are those of its last attempt, as text.
    """

    job_id: str
    error: str
    traceback: str | None = None


@template("Job {job_id} was cancelled{ending}")
class JobCancelledError(RotaError):
    """The job whose result was awaited was cancelled."""

    job_id: str
    reason: str | None = None

    @property
    def ending(self) -> str:
        return f": {self.reason}" if self.reason else ""


@template("Job {job_id} has not ended within {waited_for:g} s", "job_id seconds=waited_for")
class ResultTimeoutError(RotaError):
    """The job has not ended in time. It goes on; the result can be awaited again."""

    job_id: str
    waited_for: timedelta


@template(
    "The result of job {job_id} is not what {task} is annotated to return: {reason}",
    "job_id task reason",
)
class InvalidResultError(RotaError):
    """The job has completed, and the function returned a value of another type than annotated."""

    job_id: str
    task: str
    reason: str


@template("cursor {reason}", "field reason")
class InvalidCursorError(InvalidInputError):
    """The text is not a cursor of a job list."""

    field: ClassVar[str] = "cursor"
    reason: str


@template("Circular dependency: {way}", "cycle_path")
class DependencyCycleError(ConflictError):
    """The dependencies form a cycle; ``cycle_path`` names its jobs."""

    cycle_path: Sequence[str]

    @property
    def way(self) -> str:
        return " -> ".join([*self.cycle_path, self.cycle_path[0]])


@template("A job cannot move from {current} to {target}{ending}", "current target")
class IllegalMoveError(ConflictError):
    """A job cannot go from its current status to the requested one."""

    current: str
    target: str
    reason: str | None = None

    @property
    def ending(self) -> str:
        return f": {self.reason}" if self.reason else ""


@template("Job {job_id} is {state}, which is final", "job_id status")
class JobEndedError(ConflictError):
    """The job has reached a final status and cannot change."""

    job_id: str
    status: str
    ending: str | None = None

    @property
    def state(self) -> str:
        return f"cancelled ({self.status})" if self.ending == "cancelled" else self.status


@template(
    "Job {job_id} has been retried already, by {replacement_id}: change or duplicate that one"
)
class AlreadyRetriedError(ConflictError):
    """The job was retried before, as ``replacement_id``; other values would have no effect."""

    job_id: str
    replacement_id: str


@template("Job {job_id} was changed at {updated_at}, after it was read", "field value=updated_at")
class JobChangedError(ConflictError):
    """The job has changed since it was read; ``updated_at`` is its last change."""

    field: ClassVar[str] = "updated_at"
    job_id: str
    updated_at: str


@template("The dependencies of job {job_id} cannot change: it is {status}, no longer PENDING")
class DependenciesFixedError(ConflictError):
    """A job's dependencies can change only while it waits for them."""

    job_id: str
    status: str


@template(
    "Job {job_id} cannot be deleted: {dependent_count} depend on it, such as {dependents[0]}",
    "job_id dependents",
)
class HasDependentsError(ConflictError):
    """The job cannot be deleted: other jobs depend on it."""

    job_id: str
    dependents: Sequence[str]

    @property
    def dependent_count(self) -> int:
        return len(self.dependents)


@template("Job {job_id} exists already: {reason}", "job_id")
class DuplicateJobError(ConflictError):
    """The request clashes with an existing job; ``job_id`` is that job."""

    job_id: str
    reason: str


@template("There is no job {job_id}")
class JobNotFoundError(NotFoundError):
    """The tenant has no job with that id."""

    job_id: str


@template("Stored job {name} cannot be read: {reason}", "job_id reason")
class DamagedJobError(StoreError):
    """A stored job cannot be read. It is left untouched; others are not affected."""

    job_id: str | None
    reason: str

    @property
    def name(self) -> str:
        return self.job_id or "without an id"


@template('Effect "{key}" is being performed elsewhere, until {until} at least')
class EffectInProgressError(ConflictError):
    """Another caller is performing the effect; ``until`` is when its claim expires."""

    tenant: str
    key: str
    until: datetime


@template('Effect "{key}" began at {started_at}, and it is unknown whether it happened')
class EffectUnknownError(RefusedError):
    """It is unknown whether the effect happened, and it must not happen twice.

    Once it is known, call ``Ledger.forget`` or ``Ledger.confirm``.
    """

    tenant: str
    key: str
    started_at: datetime


class RegistrationsNotArrayError(InvalidInputError):
    def __init__(self) -> None:
        super().__init__("Registrations must be an array")


@template("Invalid registration shape: expected [string, string, function, Duration]")
class RegistrationShapeError(InvalidInputError):
    """A registration has the wrong length, or a part of it the wrong type."""

    registration_index: int
    received: object


@template("Invalid registration: {field} {reason}")
class InvalidRegistrationError(InvalidInputError):
    """A registration has the right shape but an invalid value."""

    field: str
    value: object
    reason: str


@template('Task with name "{task_name}" is already scheduled')
class ScheduleDuplicateTaskError(InvalidInputError):
    task_name: str


@template('Invalid cron expression "{expression}": {field} field {reason}')
class CronExpressionInvalidError(InvalidInputError):
    """A registration's expression was refused; the parser's own error is the cause."""

    expression: str
    field: str
    reason: str


@template("Retry delay must be non-negative")
class NegativeRetryDelayError(InvalidInputError):
    retry_delay_ms: float


@template("Cannot initialize scheduler: scheduler is already {current_state}")
class SchedulerAlreadyActiveError(ConflictError):
    """``initialize()`` was called on an active scheduler; nothing has changed."""

    current_state: str


@template("Failed to initialize scheduler: {cause}")
class SchedulerInitializationError(RotaError):
    """The store failed while tasks were being read; its content is unchanged."""

    cause: BaseException


@template("Failed to schedule task '{name}': {cause}")
class ScheduleTaskError(RotaError):
    """The tasks could not be written together; the earlier tasks are unchanged."""

    name: str
    cron_expression: str
    cause: BaseException


@template("Failed to stop scheduler: {cause}")
class StopSchedulerError(RotaError):
    """The scheduler has stopped, but some runs could not be completed."""

    cause: BaseException


@template("Persisted tasks changed while they were being brought in line with the registrations")
class TaskListMismatchError(ConflictError):
    """Other instances kept changing the stored tasks during reconciliation."""

    expected: Sequence[Any]
    actual: Sequence[Any]


@template('No task is named "{name}"', "taskName=name")
class TaskNotRegisteredError(NotFoundError):
    """The task is neither registered nor stored."""

    name: str


class TaskTryDeserializeError(RotaError):
    """A stored task record cannot be read. It is quarantined; the others are not affected.

    ``field``, ``value`` and ``expected_type`` are None where they do not apply.
    """

    field: str | None = None
    value: Any = None
    expected_type: str | None = None


@template("Missing required field: {field}")
class TaskMissingFieldError(TaskTryDeserializeError):
    field: str


@template("Invalid type for field '{field}': expected {expected_type}, got {actual_type}")
class TaskInvalidTypeError(TaskTryDeserializeError):
    field: str
    value: object
    expected_type: str
    actual_type: str


@template("Invalid value for field '{field}': {reason}")
class TaskInvalidValueError(TaskTryDeserializeError):
    field: str
    value: object
    reason: str


@template("{reason}", "value")
class TaskInvalidStructureError(TaskTryDeserializeError):
    reason: str
    value: object


class WorkerBusyError(ConflictError):
    """The worker is already running."""

    def __init__(self) -> None:
        super().__init__("This worker is running already")


@template(
    "The worker is worn out: {leaked_count} handlers were cancelled and still run. Its jobs were "
    "released; restart the process"
)
class WorkerWornOutError(RotaError):
    """Handlers that do not end have taken every place of a worker: restart the process."""

    leaked_count: int


@template(
    "This worker was made in process {made_in} and cannot be used in process {used_in}: threads "
    "and connections do not survive a fork; open the store and create the worker after the fork"
)
class WorkerForkedError(InvalidInputError):
    """A worker was used in another process than the one that created it."""

    made_in: int
    used_in: int


@template("{field} {reason}")
class InvalidPayloadError(InvalidInputError):
    """The payload of a built-in kind is invalid; a retry would not help."""

    field: str
    reason: str


@template("The signature cannot be trusted: {reason}")
class InvalidSignatureError(InvalidInputError):
    """A message was not signed with a known secret, or is too old: do not act on it."""

    reason: str


@template("There is no secret {secret!r} for tenant {tenant!r}")
class SecretNotFoundError(NotFoundError):
    """A job names a secret that the worker does not have."""

    tenant: str
    secret: str


@template("No request may go to {host}: {reason}")
class ForbiddenAddressError(RefusedError):
    """A request would have gone to a forbidden address, such as a private network.

    The message does not name the address: the caller need not learn how names resolve here.
    """

    host: str
    reason: str


class DeliveryError(RotaError):
    """Another program could not be reached or refused the request; a retry may succeed."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(
            reason, {"reason": reason} | ({} if status is None else {"status": status})
        )
        self.reason = reason
        self.status = status


@template(
    "The lock on {job_id} ran out at {lock_until}, before it was processed",
    "jobId=name lock_until",
)
class LockLostError(ConflictError):
    """A document was processed for longer than its lock, and another process has it now.

    It has been, or will be, processed again; nothing more was written for this run. Use a longer
    ``lock_duration``.
    """

    job_id: object
    lock_until: datetime

    @property
    def name(self) -> str:
        return str(self.job_id)


@template('Document "{key}" in "{collection}" is no longer at version {expected}')
class StaleVersionError(ConflictError):
    """A document changed between reading and writing; nothing was written."""

    collection: str
    key: str
    expected: int | None


class StoreUnavailableError(StoreError):
    """The store cannot be reached, or refuses requests, for now."""


@template(
    'Tenant "{tenant}" is moving to shard "{target}": try again in some seconds',
    "tenant target outcome",
)
class TenantMovingError(StoreUnavailableError):
    """Nothing can be written for a tenant for some seconds, while it moves to another shard.

    Repeat the call: nothing was written, and nothing is lost.
    """

    outcome: ClassVar[str] = "nothing was written"
    tenant: str
    target: str


class MoveConflictError(ConflictError):
    """A move of a tenant cannot begin or go on, because of another process or another move."""


class StoreClosedError(StoreError):
    """The store was closed; open it again."""

    def __init__(self) -> None:
        super().__init__("The store is closed")


@template("The store cannot take part in this transaction: {reason}", "field reason")
class UnsupportedConnectionError(InvalidInputError):
    """The store cannot write through the caller's connection."""

    field: ClassVar[str] = "connection"
    reason: str


class SchemaOutdatedError(StoreError):
    """The store's schema and this program do not match."""


class StoreDamagedError(StoreError):
    """The store's file is damaged; nothing was changed in it."""


class CopyRefusedError(RefusedError):
    """Nothing was copied: the source is in use, or the target is not empty."""


@template(
    "A copy from {source} into this store is not finished: repeat the copy, which continues, or "
    "empty the store"
)
class CopyUnfinishedError(StoreError):
    """The store is an unfinished copy and cannot be used until the copy completes."""

    source: str


@template(
    "The copy is not equal to the source: {listing}. If other programs wrote to one of them "
    "meanwhile, stop them, empty the target and copy again",
    "differences",
)
class CopyDiffersError(StoreError):
    """The copy differs from the source; ``differences`` names the first differences."""

    differences: Sequence[str]

    @property
    def listing(self) -> str:
        return "; ".join(self.differences)


class InvalidStoreUrlError(InvalidInputError):
    """The address does not name a store that Rota can open."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = hide_password(url), reason
        message = f'Invalid store address "{self.url}": {reason}'
        super().__init__(message, {"url": self.url, "reason": reason})


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


_PASSWORD = re.compile(r"(://[^/@:]*:)[^/]*@")


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


@template('This needs a token with the scope "{scope}"')
class ForbiddenError(RefusedError):
    """The caller is known but lacks a permission; ``scope`` is the one needed."""

    scope: str


@template('This needs a token with the scope "admin" of the tenant "{tenant}"')
class ForbiddenTenantError(RefusedError):
    """The request is about all tenants; ``tenant`` is the one whose admins may make it."""

    tenant: str


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


@template('This service does not answer for the host "{host}"')
class UnknownHostError(RefusedError):
    """A request names a host that this service does not serve."""

    host: str


@template("{reason}", "quota retry_after=retry_after")
class QuotaExceededError(RefusedError):
    """Too many requests in too short a time, or too much is already waiting.

    ``retry_after`` is the number of seconds after which a retry makes sense.
    """

    reason: str
    quota: str
    retry_after: int


@template("The body must arrive within {within:g} s", "field within")
class RequestTooSlowError(RefusedError):
    """The body of a request did not arrive in time."""

    field: ClassVar[str] = "body"
    within: timedelta


@template(
    'Other hosts reach "{host}", and no token would be required: listen on 127.0.0.1, or leave '
    "authentication on",
    "field value=host",
)
class UnguardedAddressError(InvalidInputError):
    """A service without authentication would be reachable from other hosts."""

    field: ClassVar[str] = "host"
    host: str


@template("{field} {reason}")
class InvalidRequestError(InvalidInputError):
    """A request cannot be parsed; ``field`` says where, ``reason`` why."""

    field: str
    reason: str


@template("body must not be longer than {limit} bytes", "field limit")
class RequestTooLargeError(InvalidInputError):
    """The body of a request is longer than ``limit`` bytes; the rest was not read."""

    field: ClassVar[str] = "body"
    limit: int


@template(
    "the result has {size} bytes of JSON, at most {limit} are kept; store it elsewhere and return "
    "where it is",
    "field size limit",
)
class ResultTooLargeError(InvalidInputError):
    """What a handler returned has more than ``limit`` bytes as JSON, and is not kept."""

    field: ClassVar[str] = "result"
    size: int
    limit: int


@template("{field} {reason}")
class UnsupportedMediaError(InvalidInputError):
    """The body of a request has an unsupported format; ``field`` is the header."""

    field: str
    reason: str


class MethodNotAllowedError(InvalidInputError):
    """The path exists but does not support the method."""

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.method, self.allowed = method, sorted(allowed)
        message = f"{method} is not possible here, only {', '.join(self.allowed)}"
        super().__init__(message, {"field": "method", "allowed": self.allowed})


@template("There is nothing under {path:.200}", "")
class UnknownPathError(NotFoundError):
    """Nothing is served under that path."""

    path: str


@template("Cannot listen on {host} port {port}: {reason}")
class AddressUnusableError(ConflictError):
    """The service cannot listen on the address: usually another program already does."""

    host: str
    port: int
    reason: str


@template("The server at {url} {reason}")
class ServerUnavailableError(StoreError):
    """A server did not answer, or not as a Rota server does."""

    url: str
    reason: str
