"""Addresses, taken or refused."""

import socket

import pytest

from rota.errors import AddressUnusableError
from rota.runtime.plan import Binding, listen_on


def test_any_free_port_is_taken_and_named() -> None:
    listening = listen_on(Binding(port=0))
    with listening.socket:
        port = listening.socket.getsockname()[1]
        assert listening.url == f"http://127.0.0.1:{port}"
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass  # the URL accepts connections


def test_a_port_that_is_taken_is_named() -> None:
    with listen_on(Binding(port=0)).socket as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressUnusableError) as refused:
            listen_on(Binding(port=port))
    assert (
        refused.value.message == f"Cannot listen on 127.0.0.1 port {port}: Address already in use"
    )
    assert refused.value.details["port"] == port


def test_an_address_of_another_host_is_refused() -> None:
    with pytest.raises(AddressUnusableError, match=r"Cannot listen on 192\.0\.2\.1 port"):
        listen_on(Binding(host="192.0.2.1", port=0))
