"""All of the contracts are for a real MongoDB; on a stand-in, which is slow, a sample is run.

Tests with thousands of documents take minutes there, the others seconds each. ROTA_TEST_PATIENTLY=1
has all of them run all the same; then say ``--timeout=1200``.
"""

from zlib import crc32

import pytest
from tests.servers.patience import PATIENTLY, is_patient

LONG = frozenset(
    {
        "test_a_long_chain_is_no_hardship",
        "test_a_long_stream_is_written_as_it_comes",
        "test_a_large_collection_comes_whole_in_pages",
        "test_a_scan_does_not_outlive_its_store",
        "test_a_scan_that_is_given_up_leaves_nothing_behind",
        "test_many_keys_can_be_asked_for_at_once",
        "test_one_may_write_between_the_pages_of_the_other",
        "test_two_scans_at_once_do_not_disturb_each_other",
        "test_what_stays_is_seen_once_while_others_write",
    }
)


SAMPLED = 16
"""One in so many of the other tests is run on a stand-in, chosen by name: always the same ones."""


@pytest.fixture(autouse=True)
def _most_need_mongod(request: pytest.FixtureRequest) -> None:
    name = request.node.name
    if not is_patient() and (name in LONG or crc32(name.encode()) % SAMPLED):
        pytest.skip(f"too slow on a stand-in for MongoDB: see {PATIENTLY}")
