"""One empty server for each measurement: MariaDB as delivered, durable."""

from pathlib import Path

from tests.servers.mariadb import MariadbServer, execute, find_mariadb


class NoMysqlError(Exception):
    """There is no MariaDB or MySQL on this machine."""


class MysqlPlace:
    """A server, and what the harness asks it."""

    def __init__(self, folder: Path, number: int) -> None:
        program = find_mariadb()
        if program is None:
            raise NoMysqlError("mariadb-server is not installed")
        self._server = MariadbServer(program, folder / f"mysql-{number}")
        self._server.create()
        self._server.start()
        self.settings = {"url": self._server.url}

    @property
    def server_process_id(self) -> int | None:
        return self._server.process_id

    def settle(self) -> None:
        """Nothing is written later than it is acknowledged."""

    def is_pending(self, statement: str) -> bool:
        return bool(execute(self._server.url, statement)[0][0])

    def close(self) -> None:
        self._server.remove()


def describe_mysql() -> str:
    """What the measurements run on."""
    return "MariaDB, innodb_flush_log_at_trx_commit=1"
