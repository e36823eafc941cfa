"""A sharded MongoDB: two shards and a config server of one member each, behind a mongos.

The program ``mongos`` must be on the path, beside a ``mongod`` of its version.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from pymongo import MongoClient
from tests.servers.groups.mongo_set import MongoMember
from tests.servers.mongo import MongoServer, find_mongod
from tests.servers.postgres import wait_for_server
from tests.servers.process import ServerProcess
from tests.servers.shared import run_folder

from rota.stores.mongo.connection import JOBS

SHARD_COUNT = 2
NO_PROGRAM = "this needs mongos, and a mongod of its version, on the path"


class ShardServer(MongoMember):
    """A set of one member that is a shard, or the config server."""

    def __init__(self, program: Path, folder: Path, role: str) -> None:
        super().__init__(program, folder)
        self._role = role
        self.set_name = folder.name

    def start(self) -> None:
        """Start, and wait until it can be written to."""
        ServerProcess.start(self)
        member = {"_id": 0, "host": f"{self.host}:{self.port}"}
        config: dict[str, Any] = {"_id": self.set_name, "members": [member]}
        if self._role == "configsvr":
            config["configsvr"] = True
        if not self.ask("hello").get("setName"):
            self.ask("replSetInitiate", config)
        wait_for_server(
            lambda: bool(self.ask("hello")["isWritablePrimary"]),
            lambda: f"{self.set_name} has no primary",
        )

    def _command(self) -> Sequence[str]:
        options = [each for each in MongoServer._command(self) if "--replSet" not in each]
        orphans = [] if self._role == "configsvr" else ["--setParameter=orphanCleanupDelaySecs=1"]
        return [*options, *orphans, f"--replSet={self.set_name}", f"--{self._role}"]


class Router(ServerProcess):
    """A mongos."""

    def __init__(self, program: Path, folder: Path, config: ShardServer) -> None:
        super().__init__("mongos", folder)
        self._program = program
        self._config = config

    @property
    def url(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/"

    def _command(self) -> Sequence[str]:
        config = f"{self._config.set_name}/127.0.0.1:{self._config.port}"
        place = ["--port", str(self.port), "--bind_ip=127.0.0.1", "--nounixsocket"]
        return [str(self._program), f"--configdb={config}", *place]

    def _answers(self) -> bool:
        return "Waiting for connections" in self.log


class MongoShards:
    """The shards, and the mongos in front of them."""

    def __init__(self, shards: Sequence[ShardServer], router: Router) -> None:
        self.shards = shards
        self.router = router
        self.client: MongoClient[dict[str, Any]] = MongoClient(router.url)
        self._moved_count = 0

    def shard_jobs(self, database: str) -> None:
        """Shard the jobs of a store by tenant, as the documentation says."""
        key = {"tenant": "hashed"}
        self.client.admin.command("shardCollection", f"{database}.{JOBS}", key=key)

    def move_next(self, database: str) -> None:
        """Move the next range of the jobs to the other shard; no shard is left without any.

        A shard that has lost its last range drops indexes when it is given one again.
        """
        names = [shard.set_name for shard in self.shards]
        found = self.client.config.collections.find_one({"_id": f"{database}.{JOBS}"})
        assert found is not None
        chunks = list(self.client.config.chunks.find({"uuid": found["uuid"]}, sort=[("min", 1)]))
        counts = Counter(chunk["shard"] for chunk in chunks)
        movable = [chunk for chunk in chunks if counts[chunk["shard"]] > 1]
        chunk = movable[self._moved_count % len(movable)]
        self._moved_count += 1
        target = names[1 - names.index(chunk["shard"])]
        bounds = [chunk["min"], chunk["max"]]
        self.client.admin.command("moveChunk", f"{database}.{JOBS}", bounds=bounds, to=target)

    def split_by_tenant(self, database: str) -> None:
        """Have four ranges, so that tenants are on different shards."""
        for middle in (-(2**62), 2**62):
            point = {"tenant": middle}
            self.client.admin.command("split", f"{database}.{JOBS}", middle=point)

    def count_jobs(self, database: str) -> list[int]:
        """How many jobs each shard has."""
        counts = []
        for shard in self.shards:
            client: MongoClient[dict[str, Any]] = MongoClient(shard.direct_url)
            with client:
                counts.append(client[database][JOBS].count_documents({}))
        return counts


@contextmanager
def new_mongo_shards() -> Iterator[MongoShards]:
    """A sharded MongoDB, which is stopped in the end."""
    mongod, mongos = find_mongod(), shutil.which("mongos")
    assert mongod is not None, NO_PROGRAM
    assert mongos is not None, NO_PROGRAM
    folder, run = run_folder(), token_hex(4)
    config = ShardServer(mongod, folder / f"mongo-config-{run}", "configsvr")
    names = [f"mongo-shard-{number}-{run}" for number in range(SHARD_COUNT)]
    shards = [ShardServer(mongod, folder / name, "shardsvr") for name in names]
    router = Router(Path(mongos), folder / f"mongo-router-{run}", config)
    servers: list[ServerProcess] = [config, *shards, router]
    try:
        for server in servers:
            server.create()
            server.start()
        made = MongoShards(shards, router)
        with made.client:
            for shard in shards:
                place = f"{shard.set_name}/{shard.host}:{shard.port}"
                made.client.admin.command("addShard", place)
            yield made
    finally:
        for server in reversed(servers):
            server.remove()
