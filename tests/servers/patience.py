"""MongoDB in tests: which of them a slow stand-in is spared, and stores that wait longer for it."""

import os
import re
import shutil
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.servers.shared import GIVEN_MONGO

from rota.stores.mongo.address import read_address
from rota.stores.mongo.store import MongoStore

LONG = timedelta(minutes=2)
VERY_LONG = timedelta(minutes=20)
"""A stand-in may take minutes for one command with thousands of documents."""
PATIENTLY = "ROTA_TEST_PATIENTLY"
SAMPLE_MARK = (
    "main_path(*parameters): of the tests that run on all stores one that runs on a slow stand-in "
    "too, only with these parameters if any are named"
)


def is_real_mongo() -> bool:
    """Whether MongoDB is MongoDB, and not a stand-in for it."""
    return GIVEN_MONGO in os.environ or shutil.which("mongod") is not None


def is_patient() -> bool:
    """Whether all is to run: MongoDB is MongoDB, or somebody said so."""
    return is_real_mongo() or PATIENTLY in os.environ


def spare_the_stand_in(test: pytest.Item) -> None:
    """Skip a test that is not marked as one of the sample, unless there is patience."""
    if not is_patient() and not _is_sampled(test):
        pytest.skip(f"too slow on a stand-in for MongoDB: see {PATIENTLY}")


def _is_sampled(test: pytest.Item) -> bool:
    mark = test.get_closest_marker("main_path")
    return mark is not None and set(mark.args) <= set(re.split(r"[\[\]-]", test.name))


async def open_patiently(url: str) -> MongoStore:
    """The store at an address."""
    answer_for = VERY_LONG if PATIENTLY in os.environ else LONG
    settings = replace(read_address(url), connect_for=LONG, answer_for=answer_for)
    return await MongoStore.open(settings)
