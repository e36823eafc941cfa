"""JSON text -> plain values, or the reason why not."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidRequestError
from rota.server.http.request import DEEPEST, parse_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(values, st.booleans())
def test_valid_json_is_read_as_written(value: Any, is_plain: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=is_plain).encode()) == value


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        (b'{"a": 1, "b": 2, "a": 3}', "a", "twice"),
        (b'{"a": [{"b": NaN}]}', "a[0].b", "NaN"),
        (b'{"a": -Infinity}', "a", "infinite"),
        (b'{"a": 1e999}', "a", "infinite"),
        (b'{"a": {"b": "x\\u0000y"}}', "a.b", "NUL"),
        (b'{"a": {"b\\u0000": 1}}', "a", "NUL"),
        (b'{"a": "\\ud800"}', "a", "surrogate"),
        (b'{"a": 9223372036854775808}', "a", "64 bits"),
        (b'{"a": -9223372036854775809}', "a", "64 bits"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "body", "64 bits"),
        (b'{"a": "\xff"}', "body", "UTF-8"),
        (b"\xef\xbb\xbf{}", "body", "JSON"),
        (b'{"a": 1', "body", "column 8"),
        (b"{} {}", "body", "JSON"),
        (b"", "body", "JSON"),
        (b'{"a": "\x01"}', "body", "JSON"),
        (b"[" * 100_000, "body", "nested"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "body", "nested"),
    ],
)
def test_anything_else_is_refused_with_the_place(text: bytes, field: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_json(text)
    assert refused.value.field == field
    assert reason in refused.value.reason


def test_brackets_in_texts_do_not_count_as_depth() -> None:
    text = '["' + "[{" * 1_000 + '\\"", "\\\\", [' + "{}" + "]]"
    assert parse_json(text.encode())[2] == [{}]


def test_as_deep_as_allowed_is_read() -> None:
    assert parse_json(b"[" * DEEPEST + b"]" * DEEPEST)
    with pytest.raises(InvalidRequestError):
        parse_json(b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1))


def test_harmless_text_that_looks_suspicious_is_read() -> None:
    text = b'{"a": "NaN Infinity \\\\u0000 1e999 12345678901234567890", "b": 9223372036854775807}'
    assert parse_json(text)["b"] == (1 << 63) - 1


def test_a_long_name_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_json(b'{"' + b"x" * 5_000 + b'": NaN}')
    assert len(refused.value.message) < 200


LONG_KEY = b"x" * 500_000
MANY_ELEMENTS = b",".join([b"1"] * 270_000)
WITHIN_MEMORY = """
import resource, sys
from rota.errors import InvalidRequestError
from rota.server.http.request import parse_json

content = sys.stdin.buffer.read()
resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
try:
    parse_json(content)
except InvalidRequestError as error:
    print(error.field[:4], error.reason)
else:
    print("accepted")
"""


@pytest.mark.parametrize(
    ("last", "answer"),
    [
        (b'"\\u00000"', "xxxx must not hold the character NUL"),
        (b'"a \\u0000 in \\ud83d\\ude00"', "xxxx must not hold the character NUL"),
        (b'"\\ud83d\\ude00"', "accepted"),
    ],
)
def test_checking_a_large_body_takes_little_memory(last: bytes, answer: str) -> None:
    content = b'{"' + LONG_KEY + b'": [' + MANY_ELEMENTS + b"," + last + b"]}"
    done = subprocess.run(
        [sys.executable, "-c", WITHIN_MEMORY], input=content, capture_output=True, check=False
    )
    assert done.stdout.decode().strip() == answer, done.stderr.decode()[-500:]
