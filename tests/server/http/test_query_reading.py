"""The query of a request."""

from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote

import msgspec
import pytest
from msgspec import Meta

from rota.errors import InvalidRequestError
from rota.jobs import JobStatus
from rota.server.http.request import LARGEST_INTEGER, QueryReader


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str | None = None
    number: Annotated[int, Meta(ge=1)] = 20
    flag: bool = False
    status: JobStatus | None = None
    at: Annotated[datetime | None, Meta(description="when")] = None
    cursor: str | None = None


read = QueryReader(Asked).read


def test_nothing_asked_is_all_defaults() -> None:
    assert read(b"") == Asked()
    assert read(b"&") == Asked()


def test_each_parameter_has_its_type() -> None:
    assert read(b"text=a%20b+c&number=7&flag=true&status=READY") == Asked(
        text="a b c", number=7, flag=True, status=JobStatus.READY
    )


def test_texts_are_what_they_are() -> None:
    assert read(b"text=null").text == "null"
    assert read(b"text=12").text == "12"
    assert read(b"text=").text == ""
    assert read(f"text={quote('ünï=&')}".encode()).text == "ünï=&"


def test_a_plus_survives_where_spaces_have_no_place() -> None:
    assert read(b"cursor=a+b/c==").cursor == "a+b/c=="
    assert read(b"cursor=a%2Bb").cursor == "a+b"
    expected = datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert read(b"at=2026-05-01T12:00:00+02:00").at == expected
    assert read(b"at=2026-05-01T12%3A00%3A00%2B02:00").at == expected


@pytest.mark.parametrize(
    ("query", "field", "reason"),
    [
        ("color=red", "color", "not a parameter"),
        ("=x", "query", "not a parameter"),
        ("Text=x", "Text", "not a parameter of this request; did you mean text?"),
        ("text=a&text=a", "text", "once"),
        ("text=%00", "text", "NUL"),
        ("text=%ff", "text", "UTF-8"),
        ("number=", "number", "integer"),
        ("number=1.0", "number", "integer"),
        ("number=+1", "number", "integer"),
        ("number=%201", "number", "integer"),
        ("number=\u0661", "number", "integer"),
        ("number=1e2", "number", "integer"),
        ("number=0", "number", ">= 1"),
        (f"number={LARGEST_INTEGER + 1}", "number", str(LARGEST_INTEGER)),
        ("number=" + "9" * 5_000, "number", "integer"),
        ("flag=1", "flag", "true or false"),
        ("flag=True", "flag", "true or false"),
        ("status=ready", "status", "READY"),
        ("status=", "status", "one of"),
        ("at=2026-05-01T12:00:00", "at", "offset"),
        ("at=2026-05-01", "at", "offset"),
        ("at=now", "at", "offset"),
    ],
)
def test_anything_else_is_refused_by_name(query: str, field: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read(query.encode())
    assert refused.value.field == field
    assert reason in refused.value.reason
