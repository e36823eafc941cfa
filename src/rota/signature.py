"""The signature of a task: binds and validates arguments, and encodes results.

A call becomes a JSON object by parameter name. What ``bind`` accepts is exactly what ``decode``
accepts later in a worker: both read the JSON with the types of the function's annotations.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from inspect import Parameter
from types import UnionType
from typing import (
    Any,
    Generic,
    NamedTuple,
    Never,
    NoReturn,
    ParamSpec,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import ValidationError, convert
from msgspec.structs import asdict, astuple

from rota.errors import InvalidArgumentsError, InvalidJobError, TaskDeclarationError
from rota.jobs import JobId
from rota.jobs.fields import read_encoded_payload, read_payload
from rota.ops.kinds import OPEN
from rota.outputs import OUTPUT, OutputEncoder, may_hold_outputs, shorten
from rota.worker import Context, Discard, Snooze

_NOT_RESULTS = (Snooze, Discard)
_encode = msgspec.json.Encoder().encode
_encode_result = msgspec.json.Encoder(order="deterministic").encode
_UNENCODABLE = (TypeError, ValueError, OverflowError, RecursionError)

P = ParamSpec("P")


class Call(msgspec.Struct, Generic[P], frozen=True, eq=False, gc=False):
    """A validated call of a task: its payload, and the jobs whose outputs it holds, by position."""

    kind: str
    payload: dict[str, Any]
    outputs: tuple[JobId, ...] = ()

    def __repr__(self) -> str:  # a payload may be long, and is not for logs
        return f"<Call of {self.kind}>"


class _Hints(NamedTuple):
    """What the annotations say."""

    arguments: Mapping[str, Any]
    positional: tuple[str, ...]
    has_defaults: bool
    context: str | None
    result: Any


class TaskSignature:
    """The parameters and the result of a task's function.

    The types are read from the annotations when they are first needed, so that they may name
    classes that are defined further down in the module.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, *, keeps_result: bool = True
    ) -> None:
        self.function = function
        self.name = name
        self.keeps_result = keeps_result
        self._parameters = inspect.signature(function).parameters
        self._names = frozenset(self._parameters)
        self._hints: _Hints | None = None
        self._model: Any = None
        self._decode_typed: Callable[[bytes], Any] = msgspec.json.decode
        self._result_decoder: msgspec.json.Decoder[Any] | None = None

    @property
    def context_name(self) -> str | None:
        """The parameter that is given the context."""
        return self._resolve().context

    def check(self, *, may_wait: bool = False) -> bool:
        """Raise TaskDeclarationError if a parameter or the result cannot be validated.

        With ``may_wait`` an annotation whose name is not defined yet is left for later: False.
        """
        try:
            self._resolve()
        except NameError as error:
            if not may_wait:
                raise refuse_declaration(
                    self.function, f"an annotation is not defined: {error}"
                ) from error
            return False
        return True

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call[Any]:
        """The validated call. InvalidArgumentsError names the argument that is not valid."""
        if self._hints is None:
            self.check()
        given = kwargs if not args and self._names.issuperset(kwargs) else self._match(args, kwargs)
        try:
            encoded = _encode(given)
        except _UNENCODABLE:  # an output, or something without a form in JSON
            return self._bind_outputs(given)
        try:
            self._decode_typed(encoded)
        except ValidationError as error:
            raise self._refuse(str(error), given) from error
        try:
            return Call(self.name, read_encoded_payload(encoded))
        except InvalidJobError as error:
            raise self._blame(given, error) from error

    def decode(self, payload: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in a payload. InvalidArgumentsError when they do not fit the signature."""
        hints = self._hints or self._resolve()
        try:
            named = asdict(convert(payload, self._model))
        except ValidationError:  # perhaps a mapping whose keys are not texts
            named = asdict(self._convert(payload))
        if hints.has_defaults:
            named = {name: value for name, value in named.items() if value is not msgspec.UNSET}
        return tuple(named.pop(name) for name in hints.positional if name in named), named

    def make_call(self, otherwise: Callable[[Context], Any]) -> Callable[[Context], Any]:
        """Calls the function with the payload of a job; ``otherwise`` if that is not plain.

        This is in the way of every job, so it passes the arguments by position, without a dict in
        between. Defaults and a context that is not the first parameter are left to ``otherwise``.
        """
        hints, function, model = self._resolve(), self.function, self._model
        count, first = len(hints.arguments), next(iter(self._parameters), None)
        if hints.context not in (None, first) or self._has_keyword_only():
            return otherwise
        has_context, has_defaults = hints.context is not None, hints.has_defaults

        def call(context: Context) -> Any:
            payload = context.job.payload
            try:
                values = astuple(convert(payload, model))
            except ValidationError:
                return otherwise(context)
            if has_defaults and len(payload) < count:
                return otherwise(context)
            return function(context, *values) if has_context else function(*values)

        return call

    def _has_keyword_only(self) -> bool:
        kinds = {parameter.kind for parameter in self._parameters.values()}
        return Parameter.KEYWORD_ONLY in kinds

    def _convert(self, payload: Any) -> Any:
        try:
            return convert(payload, self._model, str_keys=True)
        except ValidationError as error:
            raise self._refuse(str(error), payload) from error

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of a payload."""
        self._resolve()
        whole = msgspec.json.schema(self._model)
        definitions = whole.pop("$defs")
        schema: dict[str, Any] = definitions.pop(whole["$ref"].rpartition("/")[2])
        for name, parameter in self._parameters.items():
            if name in schema["properties"]:
                _add_default(schema["properties"], name, parameter.default)
        for enumeration in _find_open(self._model):
            for each in definitions.values():
                if each.get("title") == enumeration.__name__ and "enum" in each:
                    each[OPEN] = True
        return schema | ({"$defs": definitions} if definitions else {})

    def result_schema(self) -> dict[str, Any]:
        """The JSON Schema of the result."""
        return msgspec.json.schema(self._resolve().result)

    def encode_result(self, value: Any) -> bytes | None:
        """The result as JSON; None for None."""
        return None if value is None else _encode_result(value)

    def decode_result(self, encoded: bytes | None) -> Any:
        if encoded is None:
            return None
        if self._result_decoder is None:
            self._result_decoder = msgspec.json.Decoder(self._resolve().result)
        return self._result_decoder.decode(encoded)

    def _resolve(self) -> _Hints:
        """What the annotations say. Raises NameError when one of them is not defined yet."""
        if self._hints is None:
            hints = _read_hints(self.function, self._parameters)
            if self.keeps_result:
                _check_result(self.function, hints.result)
            self._model = _make_model(self.function, self._parameters, hints)
            self._decode_typed = msgspec.json.Decoder(self._model).decode
            self._names = frozenset(hints.arguments)
            self._hints = hints
        return self._hints

    def _match(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by parameter name."""
        names = [
            name
            for name in self._resolve().arguments
            if self._parameters[name].kind is not Parameter.KEYWORD_ONLY
        ]
        if len(args) > len(names):
            reason = f"takes {len(names)} positional arguments, got {len(args)}"
            raise InvalidArgumentsError(self.name, None, reason)
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self._names:
                raise InvalidArgumentsError(self.name, name, f"is not {self._list_names()}")
            if name in given:
                raise InvalidArgumentsError(self.name, name, "is given twice")
            given[name] = value
        return given

    def _bind_outputs(self, given: Mapping[str, Any]) -> Call[Any]:
        """Validate the arguments without outputs now; the others are validated before the run."""
        encoder = OutputEncoder()
        try:
            encoded = encoder.encode(given)
        except _UNENCODABLE as error:
            raise self._find_unencodable(given, error) from error
        payload: dict[str, Any] = msgspec.json.decode(encoded)
        for name, hint in self._resolve().arguments.items():
            if name in payload:
                self._check_beside_outputs(name, hint, given, payload)
            elif self._parameters[name].default is Parameter.empty:
                raise InvalidArgumentsError(self.name, name, "is missing")
        try:
            return Call(self.name, read_payload(shorten(payload)), encoder.job_ids)
        except InvalidJobError as error:
            raise self._blame(given, error) from error

    def _check_beside_outputs(
        self, name: str, hint: Any, given: Mapping[str, Any], payload: Mapping[str, Any]
    ) -> None:
        encoder = OutputEncoder()
        if may_hold_outputs(encoder.encode(given[name])):
            if not encoder.positions:
                raise InvalidArgumentsError(
                    self.name, name, f"must not hold the key {OUTPUT!r}, which stands for outputs"
                )
            return
        try:
            convert(payload[name], hint, str_keys=True)
        except ValidationError as error:
            raise self._refuse(_with_path(str(error), name), given) from error

    def _refuse(self, reason: str, given: Any) -> InvalidArgumentsError:
        """The error for one of msgspec, whose text ends with a path such as ``$.a[0]``."""
        said, _, path = reason.partition(" - at `$.")
        if path:
            path = path.rstrip("`")
            name = path.partition(".")[0].partition("[")[0]
            value = given.get(name) if isinstance(given, Mapping) else None
            said = said.replace("`", "")
            return InvalidArgumentsError(
                self.name, path, f"{value!r:.60} is not valid: {said[0].lower()}{said[1:]}"
            )
        for start in ("Object missing required field `", "Object contains unknown field `"):
            if reason.startswith(start):
                name = reason.removeprefix(start).partition("`")[0]
                fault = "is missing" if "missing" in start else f"is not {self._list_names()}"
                return InvalidArgumentsError(self.name, name, fault)
        return InvalidArgumentsError(self.name, None, f"the payload is not valid: {reason}")

    def _blame(self, given: Mapping[str, Any], error: InvalidJobError) -> InvalidArgumentsError:
        """The error for a payload that no job may have: about one argument, or all of them."""
        for name, value in given.items():
            try:
                encoded = OutputEncoder().encode({name: value})
                read_payload(shorten(msgspec.json.decode(encoded)))
            except InvalidJobError as own:
                return InvalidArgumentsError(self.name, name, f"{value!r:.60} {own.reason}")
        return InvalidArgumentsError(self.name, None, f"the arguments {error.reason}")

    def _find_unencodable(self, given: Mapping[str, Any], error: Exception) -> Exception:
        for name, value in given.items():
            try:
                OutputEncoder().encode(value)
            except _UNENCODABLE as own:
                return InvalidArgumentsError(
                    self.name, name, f"{value!r:.60} cannot be written as JSON: {own}"
                )
        return error

    def _list_names(self) -> str:
        names = ", ".join(self._names and sorted(self._names)) or "none"
        return f"a parameter of the task; it has: {names}"


def _with_path(reason: str, name: str) -> str:
    """The text of msgspec about one argument, as it would be about all of them."""
    said, at, path = reason.partition(" - at `$")
    return f"{said} - at `$.{name}{path}" if at else f"{reason} - at `$.{name}`"


def locate(function: Callable[..., Any]) -> str:
    """Where a function is defined, as ``file:line``."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "unknown" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def refuse_declaration(function: Callable[..., Any], reason: str) -> TaskDeclarationError:
    name = getattr(function, "__qualname__", repr(function))
    return TaskDeclarationError(name, locate(function), reason)


def _read_hints(function: Callable[..., Any], parameters: Mapping[str, Parameter]) -> _Hints:
    try:
        hints = get_type_hints(inspect.unwrap(function), include_extras=True)
    except TypeError as error:
        raise refuse_declaration(function, f"its annotations are not valid: {error}") from error
    context = None
    arguments: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if hints.get(name) is Context:
            if context is not None:
                reason = f"both {context} and {name} are a Context; one is enough"
                raise refuse_declaration(function, reason)
            _check_kind(function, parameter)
            context = name
            continue
        _check_parameter(function, parameter, hints)
        arguments[name] = hints[name]
    own = [parameters[name] for name in arguments]
    return _Hints(
        arguments,
        tuple(it.name for it in own if it.kind is Parameter.POSITIONAL_ONLY),
        any(it.default is not Parameter.empty for it in own),
        context,
        _result_type(hints.get("return", Any)),
    )


def _check_parameter(
    function: Callable[..., Any], parameter: Parameter, hints: Mapping[str, Any]
) -> None:
    name = parameter.name
    _check_kind(function, parameter)
    if name not in hints:
        reason = f"parameter {name} has no annotation, so nothing can validate it; add a type"
        if name in ("self", "cls"):
            fix = "make it a function or a static method"
            reason = f"it is a method, and a worker has no object to call it on; {fix}"
        raise refuse_declaration(function, reason)
    if Context in get_args(hints[name]):
        reason = f"parameter {name}: annotate it as Context alone; every run has exactly one"
        raise refuse_declaration(function, reason)
    try:
        msgspec.json.schema(hints[name])
    except TypeError as error:
        reason = f"parameter {name}: {hints[name]!r} cannot be validated: {_last_line(error)}"
        raise refuse_declaration(function, reason) from error


def _check_kind(function: Callable[..., Any], parameter: Parameter) -> None:
    if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
        reason = f"parameter {parameter} takes any number of values; use a list or a dict"
        raise refuse_declaration(function, reason)


def _check_result(function: Callable[..., Any], hint: Any) -> None:
    try:
        msgspec.json.schema(hint)
    except TypeError as error:
        reason = f"the result: {hint!r} cannot be validated: {_last_line(error)}"
        fix = "annotate a type of JSON, or do not keep it: keep_result=False"
        raise refuse_declaration(function, f"{reason}; {fix}") from error


def _make_model(
    function: Callable[..., Any], parameters: Mapping[str, Parameter], hints: _Hints
) -> Any:
    """A struct with the parameters as fields. A field with a default may be left out."""
    fields: list[Any] = [
        (name, hint) if parameters[name].default is Parameter.empty else (name, hint, msgspec.UNSET)
        for name, hint in hints.arguments.items()
    ]
    name = getattr(function, "__name__", "task")
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True, gc=False)


def _result_type(hint: Any) -> Any:
    """The annotation without Snooze and Discard, which are not results."""
    if hint in _NOT_RESULTS or hint in (NoReturn, Never):
        return None
    if get_origin(hint) not in (Union, UnionType):
        return hint
    kept = tuple(each for each in get_args(hint) if each not in _NOT_RESULTS)
    return Union[kept] if kept else None  # noqa: UP007 - the members are a value


def _add_default(properties: dict[str, Any], name: str, default: Any) -> None:
    """Show the default of a parameter, if JSON has a form for it."""
    if default is Parameter.empty:
        return
    try:
        properties[name] = {**properties[name], "default": msgspec.to_builtins(default)}
    except (TypeError, ValueError):
        return


def _find_open(model: Any) -> list[type[Enum]]:
    """The enumerations, however deep, that take other values than those of their members."""
    found: list[type[Enum]] = []
    seen: list[Any] = []
    waiting: list[Any] = [msgspec.inspect.type_info(model)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple):
            waiting += one
        elif isinstance(one, msgspec.inspect.EnumType):
            found += [one.cls] if _takes_others(one.cls) else []
        elif isinstance(one, _PARTS) and not any(one is each for each in seen):
            seen.append(one)
            waiting += [getattr(one, name) for name in one.__struct_fields__]
    return found


def _takes_others(enumeration: Any) -> bool:
    """As a flag does, and an enumeration with ``_missing_``."""
    return bool(enumeration._missing_.__func__ is not _MISSING)


_PARTS = (msgspec.inspect.Type, msgspec.inspect.Field)
_MISSING = getattr(Enum._missing_, "__func__", None)


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1]
