"""What an address says of Sentinels, and what it must not show."""

import pytest

from rota.errors import InvalidStoreUrlError
from rota.runtime.wiring import check_address
from rota.stores.redis.address import Place, read_address


def test_an_address_names_sentinels_service_and_database() -> None:
    settings = read_address(
        "redis+sentinel://ada:s3cret@one:26380,two,[::1]:26381/work/2?name=shop&replicas=1"
    )
    assert settings.sentinels is not None
    assert settings.sentinels.places == (
        Place("one", 26380),
        Place("two", 26379),
        Place("::1", 26381),
    )
    assert (settings.sentinels.service, settings.sentinels.is_encrypted) == ("work", False)
    assert (settings.url, settings.replica_count) == ("redis://ada:s3cret@work/2", 1)
    assert settings.label == "redis+sentinel://ada@one:26380,two,[::1]:26381/work/2?name=shop"


def test_the_database_is_the_first_unless_it_is_named() -> None:
    assert read_address("redis+sentinel://one/work").url == "redis://work/0"
    assert read_address("redis+sentinel://one/work/").url == "redis://work/0"
    assert read_address("redis+sentinel://one/work?db=3").url == "redis://work/0?db=3"


def test_credentials_are_for_the_server_unless_they_say_otherwise() -> None:
    server_only = read_address("redis+sentinel://ada:s3cret@one/work").sentinels
    assert server_only is not None
    assert server_only.options == {}
    both = read_address(
        "redis+sentinel://ada:s3cret@one/work?sentinel_username=eve&sentinel_password=w%40tch"
    )
    assert both.sentinels is not None
    assert both.sentinels.options == {"username": "eve", "password": "w@tch"}
    assert both.url == "redis://ada:s3cret@work/0"


def test_certificates_are_for_both(tmp_path_factory: pytest.TempPathFactory) -> None:
    authority = tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.touch()
    settings = read_address(f"rediss+sentinel://one/work?ssl_ca_certs={authority}")
    assert settings.sentinels is not None
    assert settings.sentinels.is_encrypted
    assert settings.sentinels.options == {"ssl_ca_certs": str(authority)}
    assert "ssl_ca_certs=" in settings.url


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis+sentinel://", "it names no Sentinel"),
        ("redis+sentinel:///work", "it names no Sentinel"),
        ("redis+sentinel://ada:word@/work", "it names no Sentinel"),
        ("redis+sentinel://one", "it names no service"),
        ("redis+sentinel://one/", "it names no service"),
        ("redis+sentinel://one/my work", "the service must be letters"),
        ("redis+sentinel://one/work/rota", "a database of Redis is a number"),
        ("redis+sentinel://one/work/0/1", "a database of Redis is a number"),
        ("redis+sentinel://one,,two/work", "each Sentinel is a host"),
        ("redis+sentinel://one:/work", "each Sentinel is a host"),
        ("redis+sentinel://one:0/work", "each Sentinel is a host"),
        ("redis+sentinel://:26379/work", "each Sentinel is a host"),
        ("redis+sentinel://one:port/work", "the port of a Sentinel must be a number"),
        ("redis+sentinel://one:70000/work", "the port of a Sentinel must be a number"),
        ("redis+sentinel://[::1/work", "the port of a Sentinel must be a number"),
        ("redis+sentinel://one,one:26379/work", "it names a Sentinel twice"),
        ("redis+sentinel://one/work?sentinel_username=eve", "needs a sentinel_password"),
        ("redis+sentinel://one/work?colour=red", "colour is not an option"),
        ("redis+sentinel://one/work?replicas=many", "replicas must be a number from 0 to 8"),
        ("redis+sentinel://one/work?name=", "the name must be"),
        ("redis+sentinel://one/work?ssl_cert_reqs=none", r"connection: rediss\+sentinel://"),
        ("redis+sentinel://one/work#0", "a # must be written as %23"),
        ("redis+sentinel://ada:wo[rd@one/work", "it cannot be read as an address"),
        ("redis+sentinel://ada:wo]rd@one/work", "it cannot be read as an address"),
        ("redis+sentinel://ada:wo\u2100rd@one/work", "it cannot be read as an address"),
        ("redis://one/0?sentinel_password=word", "sentinel_password is not an option"),
        ("redis://one,two/0?name=", "the name must be"),
    ],
)
def test_an_address_that_names_no_store_is_refused(url: str, reason: str) -> None:
    with pytest.raises(InvalidStoreUrlError, match=reason):
        check_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://ada:s3cret@one/work?sentinel_password=s3cret",
        "redis+sentinel://ada:s3/cret@one/work",
        "redis+sentinel://ada:123/s3cret@one/work",
        "redis+sentinel://ada:s3?cret@one/work",
        "redis+sentinel://ada:s3@cret@one/work",
        "redis+sentinel://one/work?sentinel_password=s3@cret",
        "redis+sentinel://one/work?sentinel_password=s3cret&s3cret",
        "redis+sentinel://ada:s3\u2100cret@one/work",
        "redis+sentinel://ada:s3[cret@one/work",
    ],
)
def test_a_password_is_shown_nowhere(url: str) -> None:
    try:
        settings = read_address(url)
        told = repr(settings) + settings.label
    except InvalidStoreUrlError as error:
        told = f"{error} {error.details} {error.__cause__}"
    assert "s3" not in told
