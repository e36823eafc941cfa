"""Payloads of ``http.request``: what does not fit is refused with the name of the field."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kinds.http.asker import Asker

from rota.errors import InvalidPayloadError
from rota.kinds.http_request import LARGEST_BODY, read_request
from rota.kinds.network import HttpRules
from rota.worker import Discard

STEADY = settings(deadline=None, derandomize=True)
URL = "https://example.com/a"
INNER = "10.0.0.1"
UNENCODED = "exämple.com"
RULES = HttpRules()

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FIELDS = ("url", "method", "headers", "body", "json", "timeout_seconds", "expected", "secret")


@pytest.mark.parametrize(
    ("field", "payload"),
    [
        ("payload", "https://example.com"),
        ("payload", None),
        ("url", {}),
        ("url", {"url": 7}),
        ("url", {"url": ""}),
        ("url", {"url": "/hook"}),
        ("url", {"url": "hooks.example.com"}),
        ("url", {"url": "https://"}),
        ("url", {"url": "https:///a"}),
        ("url", {"url": "https://[::1"}),
        ("url", {"url": "https://user:word@example.com/"}),
        ("url", {"url": "https://example.com:99999/"}),
        ("url", {"url": "https://example.com:22/"}),
        ("url", {"url": "http://example.com/"}),
        ("url", {"url": "file:///etc/passwd"}),
        ("url", {"url": "https://example.com/\r\nX-Injected: 1"}),
        ("url", {"url": "https://example.com/a b"}),
        ("url", {"url": f"https://{UNENCODED}/"}),
        ("url", {"url": f"https://example.com\\@{INNER}/"}),
        ("url", {"url": "https://example.com/" + "a" * 2_048}),
        ("method", {"url": URL, "method": "CONNECT"}),
        ("method", {"url": URL, "method": "GET / HTTP/1.1\r\n"}),
        ("headers", {"url": URL, "headers": ["X-A"]}),
        ("headers.X-A", {"url": URL, "headers": {"X-A": "a\r\nX-B: b"}}),
        ("headers.X-A", {"url": URL, "headers": {"X-A": "a\nb"}}),
        ("headers.X-A", {"url": URL, "headers": {"X-A": "a\0b"}}),
        ("headers.X-A", {"url": URL, "headers": {"X-A": "ä"}}),
        ("headers", {"url": URL, "headers": {"X-A: b\r\nX-C": "d"}}),
        ("headers", {"url": URL, "headers": {"": "d"}}),
        ("headers.host", {"url": URL, "headers": {"host": "10.0.0.1"}}),
        ("headers.Content-Length", {"url": URL, "headers": {"Content-Length": "5"}}),
        ("headers.Transfer-Encoding", {"url": URL, "headers": {"Transfer-Encoding": "chunked"}}),
        ("headers.Rota-Signature", {"url": URL, "headers": {"Rota-Signature": "t=1,v1=a"}}),
        ("headers.Proxy-Foo", {"url": URL, "headers": {"Proxy-Foo": "a"}}),
        ("headers.Authorization", {"url": URL, "headers": {"Authorization": "Bearer a"}}),
        ("headers", {"url": URL, "headers": {f"X-{index}": "" for index in range(51)}}),
        ("json", {"url": URL, "json": {}, "body": ""}),
        ("body", {"url": URL, "method": "GET", "body": "a"}),
        ("json", {"url": URL, "method": "HEAD", "json": None}),
        ("body", {"url": URL, "body": "a" * (LARGEST_BODY + 1)}),
        ("json", {"url": URL, "json": "a" * LARGEST_BODY}),
        ("body", {"url": URL, "body": "\ud800"}),
        ("timeout_seconds", {"url": URL, "timeout_seconds": 0}),
        ("timeout_seconds", {"url": URL, "timeout_seconds": 301}),
        ("timeout_seconds", {"url": URL, "timeout_seconds": float("nan")}),
        ("expected", {"url": URL, "expected": []}),
        ("expected[1]", {"url": URL, "expected": [200, 99]}),
        ("secret", {"url": URL, "secret": "../other"}),
        ("secret", {"url": URL, "secret": ""}),
        ("proxy", {"url": URL, "proxy": f"http://{INNER}"}),
    ],
)
def test_a_payload_that_cannot_be_used_is_refused(field: str, payload: Any) -> None:
    with pytest.raises(InvalidPayloadError) as caught:
        read_request(payload, RULES)
    assert caught.value.field == field
    assert caught.value.message.startswith(field)


@STEADY
@given(st.dictionaries(st.sampled_from(FIELDS), anything) | anything, st.booleans())
def test_no_payload_brings_about_another_error(payload: Any, has_url: bool) -> None:
    if has_url and isinstance(payload, dict):
        payload["url"] = URL
    with suppress(InvalidPayloadError):
        assert read_request(payload, RULES).url.scheme == "https"


@STEADY
@given(st.text(max_size=60), st.text(max_size=60))
def test_no_header_brings_about_a_second_one(name: str, value: str) -> None:
    try:
        asked = read_request({"url": URL, "headers": {name: value}}, RULES)
    except InvalidPayloadError:
        return
    assert asked.request.headers == {name: value}
    assert not {"\r", "\n", "\0"} & set(name + value)
    assert name.isascii()


def test_a_payload_may_be_as_short_as_its_url() -> None:
    asked = read_request({"url": "https://Example.com/a#part"}, RULES)
    assert str(asked.url) == URL
    assert (asked.request.method, asked.body, asked.content_type) == ("POST", b"", None)


def test_null_is_json_too() -> None:
    asked = read_request({"url": URL, "json": None}, RULES)
    assert (asked.body, asked.content_type) == (b"null", "application/json")


async def test_a_job_with_an_invalid_payload_is_discarded_at_once() -> None:
    returned = await Asker(443).ask(url="ftp://example.com")
    assert isinstance(returned, Discard)
    assert returned.reason.startswith("url must begin with https or http")
