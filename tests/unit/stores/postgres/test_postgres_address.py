"""What an address says, and what of it is shown."""

import pytest

from rota.errors import InvalidStoreUrlError
from rota.stores.postgres.address import masked, read_address


def test_everything_but_the_schema_is_left_to_postgresql() -> None:
    settings = read_address("postgresql://me:secret@host:6543/jobs?sslmode=require&schema=mine")
    assert settings.url == "postgresql://me:secret@host:6543/jobs?sslmode=require"
    assert settings.schema == "mine"
    assert settings.label == "postgresql://me@host:6543/jobs"


def test_the_schema_is_rota_by_default() -> None:
    settings = read_address("postgresql:///jobs?host=/run/postgresql")
    assert settings.schema == "rota"
    assert settings.url == "postgresql:///jobs?host=%2Frun%2Fpostgresql"


@pytest.mark.parametrize("name", ["", "Mine", "1st", "pg_mine", "a-b", "a.b", 'a"b', "x" * 64])
def test_a_schema_that_would_need_quoting_is_refused(name: str) -> None:
    with pytest.raises(InvalidStoreUrlError, match="the schema must be named"):
        read_address(f"postgresql://host/jobs?schema={name}")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://[::1/jobs", "it cannot be read as an address"),
        ("postgresql://host/jobs?schema", "its options are"),
        ("postgresql://host/jobs#part", "a # must be written as %23"),
        ("postgresql://me@host:port/jobs", "its port must be a number"),
        ("postgresql://one:1,two:x/jobs", "its port must be a number"),
        ("postgresql://me:pa/ss@host/jobs", "its port must be a number"),
    ],
)
def test_an_address_that_cannot_be_read_is_refused(url: str, reason: str) -> None:
    with pytest.raises(InvalidStoreUrlError, match=reason):
        read_address(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host/jobs", "postgresql://me@host/jobs"),
        ("postgresql://me:sec@ret@host/jobs", "postgresql://me@host/jobs"),
        ("postgresql://me@host/jobs?password=secret", "postgresql://me@host/jobs"),
        ("postgresql://host/jobs#secret", "postgresql://host/jobs"),
        ("postgresql:///jobs", "postgresql:///jobs"),
        ("postgresql://me:sec?ret@host/jobs", "postgresql://me"),
        ("postgresql://me:sec#ret@host/jobs", "postgresql://me"),
        ("postgresql://me:123?secret@host/jobs", "postgresql://me"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_an_address_is_shown_whole_although_an_option_has_an_at() -> None:
    for place in ("host/jobs", "host:5432/jobs", "one:5432,two:5433/jobs"):
        assert masked(f"postgresql://{place}?user=me@work") == f"postgresql://{place}"
    assert "secret" not in repr(read_address("postgresql://me:secret@host/jobs"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@host/jobs?schema=No",
        "postgresql://me:secret@host/jobs?secret",
        "postgresql://me:sec?secret@host/jobs",
        "postgresql://me:sec\u2100ret@host/jobs",
        "postgresql://me:sec[ret@host/jobs",
    ],
)
def test_an_error_about_an_address_does_not_show_its_password(url: str) -> None:
    with pytest.raises(InvalidStoreUrlError) as caught:
        read_address(url)
    error = caught.value
    assert "sec" not in f"{error} {error.details} {error.__cause__}"
    assert error.__suppress_context__ or error.__context__ is None
