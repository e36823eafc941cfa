"""What every store must do, as tests that any store can be put through.

Write a test class that inherits ``StoreContract`` and give it a fixture ``store_factory``: an async
callable without arguments that opens a store which is empty at the beginning of each test. A store
that outlives its process inherits ``LastingStoreContract`` as well; there every call of the factory
within one test opens the same store again::

    class TestMyStore(StoreContract, LastingStoreContract):
        @pytest.fixture
        def store_factory(self, tmp_path: Path) -> StoreFactory:
            return lambda: open_my_store(tmp_path / "store")

A store of jobs whose content can be taken to another inherits ``PortableStoreContract``, with the
same fixture.

The tests need pytest with pytest-asyncio in its mode ``auto``.
"""

from rota.testing.store_contract.close import CloseContract
from rota.testing.store_contract.concurrency import ConcurrencyContract
from rota.testing.store_contract.content import ContentContract
from rota.testing.store_contract.fixture import StoreFactory
from rota.testing.store_contract.lasting import LastingStoreContract
from rota.testing.store_contract.portability import PortableStoreContract
from rota.testing.store_contract.read import ReadContract
from rota.testing.store_contract.scan import ScanContract
from rota.testing.store_contract.write_all import WriteAllContract
from rota.testing.store_contract.write_each import WriteEachContract

__all__ = ["LastingStoreContract", "PortableStoreContract", "StoreContract", "StoreFactory"]


class StoreContract(
    CloseContract,
    ConcurrencyContract,
    ContentContract,
    ReadContract,
    ScanContract,
    WriteAllContract,
    WriteEachContract,
):
    """Every promise of ``DocumentStore``, verb by verb."""
