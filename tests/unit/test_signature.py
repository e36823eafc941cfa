"""Signatures: binding, validation, payloads, schemas and results."""

import datetime as dt
import enum
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest

from rota import Context, Discard, Snooze
from rota.errors import InvalidArgumentsError, TaskDeclarationError
from rota.jobs import JobRequest, admit_job
from rota.outputs import Output
from rota.signature import TaskSignature

JOB = "01890a5d-ac96-774b-bcce-b302099a8057"
OTHER = "01890a5d-ac96-774b-bcce-b302099a8058"
NOW = dt.datetime(2026, 1, 5, 9, tzinfo=dt.UTC)


class Colour(enum.Enum):
    RED = "red"


@dataclass
class User:
    name: str
    age: int = 30
    tags: list[str] = field(default_factory=list)


class Point(msgspec.Struct):
    x: int
    y: int


class Size(TypedDict):
    width: int


class Pair(NamedTuple):
    left: int
    right: str


def everything(  # noqa: PLR0917 - one parameter of each type
    text: str,
    number: int | float,
    when: dt.datetime,
    on: dt.date,
    lasting: dt.timedelta,
    key: uuid.UUID,
    colour: Colour,
    user: User,
    point: Point,
    size: Size,
    pair: Pair,
    choice: Literal["a", "b"],
    raw: bytes,
    numbers: set[int],
    by_number: dict[int, str],
    maybe: str | None,
    either: int | str,
    small: Annotated[int, msgspec.Meta(ge=1, le=10)],
    whatever: Any,
) -> None: ...


VALUES: dict[str, Any] = {
    "text": "ä",
    "number": 1.5,
    "when": dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC),
    "on": dt.date(2026, 3, 1),
    "lasting": dt.timedelta(minutes=3),
    "key": uuid.UUID(JOB),
    "colour": Colour.RED,
    "user": User("ada", tags=["x"]),
    "point": Point(1, 2),
    "size": {"width": 3},
    "pair": Pair(1, "r"),
    "choice": "b",
    "raw": b"\x00\x01",
    "numbers": {3, 4},
    "by_number": {1: "one"},
    "maybe": None,
    "either": "text",
    "small": 10,
    "whatever": {"a": [1, None]},
}


def test_every_type_that_msgspec_knows_survives_the_way_through_a_payload() -> None:
    signature = TaskSignature(everything, "everything")
    payload = msgspec.json.decode(msgspec.json.encode(signature.bind((), VALUES).payload))
    assert signature.decode(payload) == ((), VALUES)


def greet(name: str, /, user: User, *, loud: bool = False) -> str:
    return f"{name} {user} {loud}"


GREET = TaskSignature(greet, "greet")


def test_the_payload_is_an_object_by_parameter_name() -> None:
    bound = GREET.bind(("ada", User("ada")), {"loud": True})
    assert bound.payload == {
        "name": "ada",
        "user": {"name": "ada", "age": 30, "tags": []},
        "loud": True,
    }
    assert bound.outputs == ()


def test_a_default_is_not_written_and_filled_in_by_the_function() -> None:
    bound = GREET.bind(("ada", User("ada")), {})
    assert "loud" not in bound.payload
    assert GREET.decode(bound.payload) == (("ada",), {"user": User("ada")})


def test_a_mapping_is_as_good_as_the_dataclass() -> None:
    bound = GREET.bind(("ada",), {"user": {"name": "ada"}})
    assert GREET.decode(bound.payload) == (("ada",), {"user": User("ada")})


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {"user": User("x")}, "greet: name: is missing"),
        (("a", User("x"), True), {}, "greet: takes 2 positional arguments, got 3"),
        (("a",), {"user": User("x"), "lud": 1}, "greet: lud: is not a parameter of the task"),
        (("a", User("x")), {"user": User("y")}, "greet: user: is given twice"),
        ((7, User("x")), {}, "greet: name: 7 is not valid: expected str, got int"),
        (("a", {"name": "x", "age": "old"}), {}, r"greet: user.age: .* expected int, got str"),
        (("a", {"name": "x", "tags": [1]}), {}, r"greet: user.tags\[0\]: .*expected str, got int"),
        (("a", {}), {}, r"greet: user: \{\} is not valid: object missing required field name"),
        (("a", User("x")), {"loud": "yes"}, "greet: loud: 'yes' is not valid: expected bool"),
        (("a", object()), {}, "greet: user: <object object at .* cannot be written as JSON"),
        (("a\0", User("x")), {}, r"greet: name: 'a\\x00' must not hold the character NUL"),
        (("a", User("x", age=2**63)), {}, "greet: user: .* must not hold integers of more than"),
        (("a" * 70_000, User("x")), {}, "greet: name: 'aaa.* must not be larger than 65536 bytes"),
        (("a", User("x", tags=["b" * 40_000] * 2)), {}, "greet: user: .* not be larger than"),
        (("a" * 40_000, User("b" * 40_000)), {}, "greet: the arguments must not be larger than"),
    ],
)
def test_a_wrong_call_is_refused_by_argument_value_and_reason(
    args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentsError, match=message):
        GREET.bind(args, kwargs)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"user": {"name": "x"}}, "greet: name: is missing"),
        ({"name": "a", "user": {"name": "x"}, "old": 1}, "greet: old: is not a parameter"),
        ({"name": "a", "user": {"name": 3}}, "greet: user.name: "),
        ([], "greet: the payload is not valid: Expected `object`, got `array`"),
        (None, "greet: the payload is not valid: Expected `object`, got `null`"),
    ],
)
def test_an_old_payload_is_refused_before_the_run(payload: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=message):
        GREET.decode(payload)


def test_the_schema_names_parameters_defaults_and_definitions() -> None:
    schema = GREET.json_schema()
    assert schema["required"] == ["name", "user"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["loud"] == {"type": "boolean", "default": False}
    assert schema["properties"]["user"] == {"$ref": "#/$defs/User"}
    assert schema["$defs"]["User"]["required"] == ["name"]


def test_outputs_become_positions_of_dependencies() -> None:
    def merge(parts: list[int], more: dict[str, Any], user: User, count: int) -> None: ...

    signature = TaskSignature(merge, "merge")
    one: Any = Output(JOB)
    two: Any = Output(OTHER)
    bound = signature.bind(([one, two, one],), {"more": {"a": two}, "user": User(one), "count": 3})
    assert bound.outputs == (JOB, OTHER)
    assert bound.payload == {
        "parts": [{"$output": 0}, {"$output": 1}, {"$output": 0}],
        "more": {"a": {"$output": 1}},
        "user": {"name": {"$output": 0}, "age": 30, "tags": []},
        "count": 3,
    }


def test_a_list_of_outputs_is_written_short() -> None:
    def merge(parts: list[int]) -> None: ...

    ids = [f"01890a5d-ac96-774b-bcce-{number:012x}" for number in range(10_000)]
    bound = TaskSignature(merge, "merge").bind(([Output(each) for each in ids],), {})
    assert bound.outputs == tuple(ids)
    assert bound.payload == {"parts": {"$outputs": [0, 10_000]}}


def test_arguments_beside_an_output_are_validated() -> None:
    def merge(part: int, count: int, more: int = 1) -> None: ...

    signature = TaskSignature(merge, "merge")
    part: Any = Output(JOB)
    with pytest.raises(InvalidArgumentsError, match="merge: count: 'x' is not valid: expected int"):
        signature.bind((part, "x"), {})
    with pytest.raises(InvalidArgumentsError, match="merge: count: is missing"):
        signature.bind((part,), {})


def test_the_key_of_outputs_is_reserved_where_there_are_outputs() -> None:
    def merge(part: int, extra: dict[str, int]) -> None: ...

    signature = TaskSignature(merge, "merge")
    part: Any = Output(JOB)
    with pytest.raises(InvalidArgumentsError, match="extra: must not hold the key"):
        signature.bind((part,), {"extra": {"$output": 0}})
    assert signature.bind((1,), {"extra": {"$output": 0}}).payload["extra"] == {"$output": 0}


def test_a_context_is_not_an_argument() -> None:
    def remind(context: Context, text: str) -> None: ...

    signature = TaskSignature(remind, "remind")
    assert signature.context_name == "context"
    assert signature.bind(("tea",), {}).payload == {"text": "tea"}
    assert list(signature.json_schema()["properties"]) == ["text"]


def test_results_are_json_of_their_annotation() -> None:
    def load() -> list[User] | Snooze | Discard:
        return []

    signature = TaskSignature(load, "load")
    encoded = signature.encode_result([User("ada")])
    assert encoded == b'[{"name":"ada","age":30,"tags":[]}]'
    assert signature.decode_result(encoded) == [User("ada")]
    assert signature.encode_result(None) is None
    assert signature.decode_result(None) is None


def test_an_annotation_may_name_a_class_that_is_defined_later() -> None:
    def later(value: "DefinedLater") -> None: ...

    signature = TaskSignature(later, "later")
    signature.check(may_wait=True)
    assert signature.bind(({"x": 1},), {}).payload == {"value": {"x": 1}}


class DefinedLater(msgspec.Struct):
    x: int


def _no_annotation(value) -> None:  # type: ignore[no-untyped-def]  # what is refused
    ...


def _any_number(*values: int) -> None: ...


def _options(**values: int) -> None: ...


class Opaque:
    pass


def _opaque(value: list[Opaque]) -> None: ...


class _Mailer:
    def send(self, to: str) -> None: ...


def _two_contexts(one: Context, two: Context) -> None: ...


def _any_number_of_contexts(*contexts: Context) -> None: ...


def _optional_context(text: str, context: Context | None = None) -> None: ...


def _two_objects(value: User | Point) -> None: ...


def _opaque_result() -> Opaque: ...  # type: ignore[empty-body]  # only its annotation is read


def _undefined(value: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821 - refused


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_no_annotation, "parameter value has no annotation"),
        (_any_number, r"parameter \*values: int takes any number of values; use a list"),
        (_options, r"parameter \*\*values: int takes any number of values"),
        (_opaque, "parameter value: list.*Opaque.* cannot be validated"),
        (_Mailer.send, "it is a method, and a worker has no object to call it on; make it a func"),
        (_two_contexts, "both one and two are a Context; one is enough"),
        (_any_number_of_contexts, r"parameter \*contexts: .*Context takes any number of values"),
        (_optional_context, "parameter context: annotate it as Context alone; every run has"),
        (_two_objects, "parameter value: .*Type unions may not contain more than one dict-like"),
        (_opaque_result, "the result: .*Opaque.* cannot be validated"),
        (_undefined, "an annotation is not defined: name 'Nowhere' is not defined"),
    ],
)
def test_a_parameter_that_cannot_be_validated_is_refused_by_function_and_line(
    function: Any, reason: str
) -> None:
    with pytest.raises(TaskDeclarationError, match=reason) as refused:
        TaskSignature(function, "task").check()
    assert refused.value.function == function.__qualname__
    file, _, line = refused.value.location.rpartition(":")
    assert file.endswith("test_signature.py")
    assert int(line) == function.__code__.co_firstlineno


def test_a_name_that_stays_undefined_is_refused_when_it_is_needed() -> None:
    signature = TaskSignature(_undefined, "task")
    signature.check(may_wait=True)
    with pytest.raises(TaskDeclarationError, match=r"_undefined at .*'Nowhere' is not defined"):
        signature.bind((1,), {})


def plain(number: int, user: User) -> tuple[int, str]:
    return number, user.name


def with_context(context: Context, number: int) -> Any:
    return context, number


def by_position(number: int, /) -> int:
    return number


def with_late_context(number: int, context: Context) -> Any:
    return number, context


def by_name(*, number: int) -> int:
    return number


def with_default(number: int, text: str = "none") -> tuple[int, str]:
    return number, text


def with_nothing() -> str:
    return "called"


def make_context(payload: Any) -> Context:
    request = JobRequest(name="job", queue="default", kind="kind", payload=payload)
    return Context(admit_job(request, job_id=JOB, now=NOW), NOW)


@pytest.mark.parametrize(
    ("function", "payload", "is_plain", "expected"),
    [
        (plain, {"user": {"name": "Ada"}, "number": 3}, True, (3, "Ada")),
        (with_context, {"number": 3}, True, ("context", 3)),
        (by_position, {"number": 3}, True, 3),
        (with_nothing, {}, True, "called"),
        (with_default, {"text": "given", "number": 3}, True, (3, "given")),
        (with_default, {"number": 3}, False, (3, "none")),
        (with_late_context, {"number": 3}, False, (3, "context")),
        (by_name, {"number": 3}, False, 3),
    ],
)
def test_a_worker_passes_the_payload_in_the_order_of_the_parameters(
    function: Any, payload: Any, is_plain: bool, expected: object
) -> None:
    signature, context = TaskSignature(function, "task"), make_context(payload)
    others: list[Context] = []

    def otherwise(given: Context) -> Any:
        others.append(given)
        args, kwargs = signature.decode(given.payload)
        named = {} if signature.context_name is None else {signature.context_name: given}
        return function(*args, **kwargs, **named)

    result = signature.make_call(otherwise)(context)
    shown = (
        tuple("context" if it is context else it for it in result)
        if isinstance(result, tuple)
        else result
    )
    assert shown == expected
    assert (not others) is is_plain


def test_a_call_names_its_task_and_keeps_its_arguments_to_itself() -> None:
    def sign_in(password: str) -> None: ...

    call = TaskSignature(sign_in, "users.sign_in").bind((), {"password": "opensesame"})
    assert repr(call) == "<Call of users.sign_in>"
