"""The contract of stores of jobs, through what looks to a driver like a replica set.

The driver looks for the primary of a set here, and makes writes retryable, as it does not with a
server that stands alone. It is no set: see ``replica_front``.
"""

from collections.abc import Iterator
from secrets import token_hex

import pytest
from pymongo.uri_parser import parse_uri
from tests.servers.patience import PATIENTLY, is_patient, open_patiently
from tests.servers.shared import in_database
from tests.unit.stores.mongo.replicas.replica_front import ReplicaFront

from rota.stores.protocol import JobStore
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory


class TestMongoReplicaJobs(JobStoreContract):
    @pytest.fixture
    def front(self, mongo_url: str) -> Iterator[ReplicaFront]:
        if not is_patient():
            pytest.skip(f"the same tests as of a server that stands alone: see {PATIENTLY}")
        ((_, port),) = parse_uri(mongo_url)["nodelist"]
        with ReplicaFront(port).open() as front:
            yield front

    @pytest.fixture
    def job_store_factory(self, front: ReplicaFront) -> JobStoreFactory:
        url = in_database(front.url, f"rota_test_{token_hex(6)}")

        async def open_empty() -> JobStore:
            return await open_patiently(url)

        return open_empty
