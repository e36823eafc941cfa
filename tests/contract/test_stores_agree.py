"""Whatever is done, SQLite answers as the memory store does."""

import tempfile

from tests.contract.agreement import THOROUGHNESS, StoresAgree


class SqliteAgrees(StoresAgree):
    def new_address(self) -> str:
        self.folder = tempfile.TemporaryDirectory()
        return f"sqlite:///{self.folder.name}/rota.db"

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


TestStoresAgree = SqliteAgrees.TestCase
TestStoresAgree.settings = THOROUGHNESS
