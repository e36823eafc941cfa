"""What an address of a Redis store says, and what it must not show."""

import pytest

from rota.errors import InvalidStoreUrlError
from rota.stores.address import masked
from rota.stores.redis.address import Place, read_address


def test_the_name_is_not_an_option_of_the_driver() -> None:
    settings = read_address("rediss://host:6380/2?name=shop&ssl_cert_reqs=none")
    assert (settings.url, settings.name) == ("rediss://host:6380/2?ssl_cert_reqs=none", "shop")
    assert settings.label == "rediss://host:6380/2?name=shop"


@pytest.mark.parametrize("scheme", ["unix", "redis+unix"])
def test_a_socket_is_named_by_its_path(scheme: str) -> None:
    assert read_address(f"{scheme}:///run/redis.sock?db=1").url == "unix:///run/redis.sock?db=1"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://", "it names no server"),
        ("redis:///0", "it names no server"),
        ("redis://host/rota", "a database of Redis is a number"),
        ("redis://host:port/0", "the port must be a number"),
        ("redis://host/0#1", "a # must be written as %23"),
        ("redis://host/0?name=", "the name must be"),
        ("redis://host/0?name={a}", "the name must be"),
        ("redis://host/0?colour=red", "colour is not an option"),
        ("redis://host/0?db=one", "a database of Redis is a number"),
        ("redis://user:word@/0", "it names no server"),
        ("redis://host/0?replicas=many", "replicas must be a number from 0 to 8"),
        ("redis://host/0?replicas=-1", "replicas must be a number from 0 to 8"),
        ("redis://host/0?replicas=9", "replicas must be a number from 0 to 8"),
        ("redis://host/0?ssl_cert_reqs=none", "for an encrypted connection: rediss://"),
        ("unix:///socket?ssl_cert_reqs=none", "for an encrypted connection: rediss://"),
        ("rediss://host/0?ssl_cert_reqs=maybe", "must be one of none, optional, required"),
        ("rediss://host/0?ssl_ca_certs=/nowhere", "ssl_ca_certs names no file: /nowhere"),
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


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://ada:s3?cret@host/0", "redis://ada"),
        ("redis://ada:s3#cret@host/0", "redis://ada"),
        ("redis://ada:123?s3cret@host/0", "redis://ada"),
        ("redis://ada:s3/cret@host/0", "redis://ada@host/0"),
        ("redis://ada:s3@cret@host/0", "redis://ada@host/0"),
        ("redis://:s3cret@host/0", "redis://@host/0"),
        ("redis://host:1/0?password=s3@cret", "redis://host"),
        ("redis://ada:s3cret@host/0?s3cret", "redis://ada@host/0"),
        ("redis://ada:s3\u2100cret@host/0", "redis://ada@host/0"),
    ],
)
def test_a_password_that_was_not_written_as_it_must_be_is_not_shown_either(
    url: str, shown: str
) -> None:
    assert masked(url) == shown
    try:
        told = repr(read_address(url))
    except InvalidStoreUrlError as error:
        told = f"{error} {error.details} {error.__cause__}"
    assert "s3" not in told


def test_replicas_are_counted_by_the_store_not_by_the_driver() -> None:
    settings = read_address("redis://host/0?replicas=2&name=shop")
    assert (settings.url, settings.replica_count) == ("redis://host/0", 2)


def test_stores_in_two_databases_are_distinguished() -> None:
    shown = {
        read_address(url).label
        for url in ("unix:///socket", "unix:///socket?db=0", "redis+unix:///socket?name=rota")
    }
    assert shown == {"unix:///socket"}
    settings = read_address("unix:///socket?password=s3cret&db=2&name=shop")
    assert settings.label == "unix:///socket?db=2&name=shop"


def test_an_address_names_several_nodes_of_a_cluster() -> None:
    settings = read_address("redis://ada:s3cret@one:7001,two,[::1]:7003/0?name=shop&replicas=1")
    assert settings.nodes == (Place("one", 7001), Place("two", 6379), Place("::1", 7003))
    assert settings.url == "redis://ada:s3cret@one:7001/0"
    assert settings.label == "redis://ada@one:7001,two,[::1]:7003/0?name=shop"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://one,one/0", "it names a node twice"),
        ("redis://one,/0", "each node is a host, with a port if it is not 6379"),
        ("redis://one,two:x/0", "the port of a node must be a number from 1 to 65535"),
        ("redis://one,two/3", "a cluster has only the database 0"),
    ],
)
def test_nodes_that_cannot_be_a_cluster_are_refused(url: str, reason: str) -> None:
    with pytest.raises(InvalidStoreUrlError, match=reason):
        read_address(url)
