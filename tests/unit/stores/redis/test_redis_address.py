"""What an address of a Redis store says, and what it must not show."""

import pytest

from rota.errors import InvalidStoreUrlError
from rota.stores.redis.address import masked, read_address


def test_the_name_is_not_an_option_of_the_driver() -> None:
    settings = read_address("redis://host:6380/2?name=shop&ssl_cert_reqs=none")
    assert (settings.url, settings.name) == ("redis://host:6380/2?ssl_cert_reqs=none", "shop")
    assert settings.label == "redis://host:6380/2?name=shop"


@pytest.mark.parametrize("scheme", ["unix", "redis+unix"])
def test_a_socket_is_named_by_its_path(scheme: str) -> None:
    assert read_address(f"{scheme}:///run/redis.sock?db=1").url == "unix:///run/redis.sock?db=1"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://", "it names no server"),
        ("redis:///0", "it names no server"),
        ("redis://host/rota", "a database of Redis is a number"),
        ("redis://host:port/0", "Port could not be cast"),
        ("redis://host/0#1", "a # must be written as %23"),
        ("redis://host/0?name=", "the name must be"),
        ("redis://host/0?name={a}", "the name must be"),
        ("redis://host/0?colour=red", "colour is not an option"),
        ("unix://", "it names no socket"),
    ],
)
def test_an_address_that_names_no_store_is_refused(url: str, reason: str) -> None:
    with pytest.raises(InvalidStoreUrlError, match=reason):
        read_address(url)


def test_nothing_secret_is_shown() -> None:
    address = "redis://user:s3cret@host:6379/0?password=s3cret"
    assert masked(address) == "redis://user@host:6379/0"
    with pytest.raises(InvalidStoreUrlError) as caught:
        read_address(f"{address}&colour=red")
    assert "s3cret" not in str(caught.value.details) + caught.value.message
