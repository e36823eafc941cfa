"""The real servers of a test run: started when the first test asks, stopped when all is over."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from hypothesis import HealthCheck, settings
from tests.servers.mariadb import MariadbServer
from tests.servers.mongo import MongoServer
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.schemas import Schemas
from tests.servers.shared import (
    end_run,
    lead_run,
    mysql_database,
    new_database,
    new_mongo_database,
    new_mongo_server,
    new_mysql_server,
    new_pgbouncer,
    new_redis_server,
    new_server,
    shared_mongo_url,
    shared_mysql_url,
    shared_redis_url,
    shared_url,
    temporary_root,
    with_option,
)

STORES = ("memory", "sqlite", "postgres", "mysql", "redis", "mongo")
"""The stores on which scheduler, rail and service are to behave in the same way."""

LONGEST = (
    "test_matrix",
    "test_worker_crashes",
    "test_worker_kills",
    "test_poller_processes",
    "test_shard_mover_killed",
    "test_up_process",
    "test_django",
    "test_copy_killed",
    "test_flow_kills",
    "test_up_on_servers",
    "test_rail_soak",
    "test_failover",
)
"""The modules of process tests that take half a minute or more, the longest first."""

settings.register_profile(
    "steady",
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")
"""The same examples in every run, however slow the machine is: a failure is never a chance."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(temporary_root()))  # that of tmp_path
    folder = lead_run()
    if folder is not None:
        config.add_cleanup(lambda: end_run(folder))
    _let_programs_be_interrupted()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that start processes, the longest modules first.

    They mostly wait: one worker of the run has them while others compute, which take from the end
    of its list when they are done. More of them at once would keep each other waiting.
    """
    processes = [it for it in items if it.get_closest_marker("process") is not None]
    others = [it for it in items if it.get_closest_marker("process") is None]
    items[:] = [*sorted(processes, key=lambda item: _rank(item.path)), *others]


def _rank(path: Path) -> int:
    return LONGEST.index(path.stem) if path.stem in LONGEST else len(LONGEST)


def pytest_collection_finish() -> None:
    """Exempt what collecting left from garbage collection: it stays until the end of the run."""
    gc.collect()
    gc.freeze()


def _let_programs_be_interrupted() -> None:
    """A shell has its background jobs ignore SIGINT, and what is ignored is inherited."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres_database() -> Iterator[str]:
    """The address of a database for the tests of this process, on the server of the run."""
    with new_database(shared_url()) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_schemas(postgres_database: str) -> Iterator[Schemas]:
    schemas = Schemas(postgres_database)
    yield schemas
    schemas.close()


@pytest.fixture
def postgres_url(postgres_database: str, postgres_schemas: Schemas) -> Iterator[str]:
    """The address of an empty PostgreSQL store: a schema of the test's own."""
    with postgres_schemas.use(postgres_database) as url:
        yield url


@pytest.fixture
def new_postgres_url(postgres_database: str) -> str:
    """The same with a schema that does not exist yet."""
    return with_option(postgres_database, "schema", f"test_{token_hex(6)}")


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store of each sort, one after another."""
    addresses = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/rota.db"}
    if request.param in addresses:
        return addresses[request.param]
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def pgbouncer(postgres_database: str) -> Iterator[PgBouncer]:
    """A pooler before the server of the run, which changes connections as often as it can."""
    pooler = new_pgbouncer(postgres_database)
    yield pooler
    pooler.remove()


@pytest.fixture(scope="session")
def pooled_schemas(postgres_database: str) -> Iterator[Schemas]:
    schemas = Schemas(postgres_database, is_pooled=True)
    yield schemas
    schemas.close()


@pytest.fixture
def pooled_url(pgbouncer: PgBouncer, pooled_schemas: Schemas) -> Iterator[str]:
    """As ``postgres_url``, through the pooler."""
    with pooled_schemas.use(pgbouncer.url) as url:
        yield url


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server that the test may kill."""
    server = new_server("own")
    yield server
    server.remove()


@pytest.fixture
def mysql_url() -> Iterator[str]:
    """The address of an empty database on the run's MariaDB server."""
    with mysql_database(shared_mysql_url()) as url:
        yield url


@pytest.fixture
def own_mysql() -> Iterator[MariadbServer]:
    """A MariaDB server that the test may kill."""
    server = new_mysql_server("own")
    yield server
    server.remove()


@pytest.fixture
def mongo_url() -> Iterator[str]:
    """The address of an empty database on the run's MongoDB server."""
    address = shared_mongo_url()
    with new_mongo_database(address) as url:
        yield url


@pytest.fixture
def own_mongo() -> Iterator[MongoServer]:
    """A MongoDB server that the test may kill."""
    server = new_mongo_server("own")
    yield server
    server.remove()


@pytest.fixture
def lone_mongo() -> Iterator[MongoServer]:
    """A MongoDB server outside a replica set, that the test may kill."""
    server = new_mongo_server("lone", is_alone=True)
    yield server
    server.remove()


@pytest.fixture(scope="session")
def redis_server_url() -> str:
    """The address of the run's Redis server."""
    return shared_redis_url()


@pytest.fixture
def redis_url(redis_server_url: str) -> str:
    """The address of an empty store on the run's Redis server: one with a name of its own."""
    return with_option(redis_server_url, "name", f"test-{token_hex(6)}")


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A Redis server that the test may kill."""
    server = new_redis_server("own")
    yield server
    server.remove()
