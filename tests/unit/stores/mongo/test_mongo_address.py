"""What an address of MongoDB says."""

import pytest
from tests.servers.shared import in_database

from rota.errors import InvalidStoreUrlError
from rota.stores.mongo.address import read_address


@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("mongodb://host", "rota"),
        ("mongodb://host/", "rota"),
        ("mongodb://host/jobs", "jobs"),
        ("mongodb://one,two:27018/jobs?replicaSet=set", "jobs"),
        ("mongodb+srv://cluster.example.org/jobs?w=1", "jobs"),
    ],
)
def test_an_address_names_a_database(url: str, database: str) -> None:
    assert read_address(url).database == database


def test_tests_can_be_given_a_server_with_several_hosts() -> None:
    url = in_database("mongodb://one:27017,two:27018/?replicaSet=set", "jobs")
    assert url == "mongodb://one:27017,two:27018/jobs?replicaSet=set"
    assert read_address(url).database == "jobs"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mongodb://host/a.b", "the name of a database is 1 to 63"),
        ("mongodb+srv://host/a$b", "the name of a database is 1 to 63"),
        ("mongodb://", "Invalid"),
        ("mongodb://host:port/rota", "Port"),
    ],
)
def test_an_address_that_names_none_is_refused(url: str, reason: str) -> None:
    with pytest.raises(InvalidStoreUrlError, match=reason):
        read_address(url)


def test_a_password_is_never_shown() -> None:
    assert read_address("mongodb://me:s3cret@host/jobs").label == "mongodb://me@host/jobs"


@pytest.mark.parametrize(
    "url",
    [
        "mongodb://me:s3c@ret@host/jobs",
        "mongodb://me:s3c?ret@host/jobs",
        "mongodb://me:s3c#ret@host/jobs",
        "mongodb://me:s3c/ret@host/jobs",
        "mongodb://me:s3cret@host:port/jobs",
        "mongodb://me:s3cret@host/jobs?s3cret",
    ],
)
def test_an_error_about_an_address_does_not_show_its_password(url: str) -> None:
    try:
        settings = read_address(url)
        told = repr(settings) + settings.label
    except InvalidStoreUrlError as error:
        told = f"{error} {error.details} {error.__cause__}"
    assert "s3c" not in told
