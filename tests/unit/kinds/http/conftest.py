import os
import shutil
from collections.abc import AsyncIterator

import pytest
from tests.unit.kinds.http.receiver import Authority, Receiver, receiving


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if shutil.which("openssl") is None and not os.environ.get("CI"):
        pytest.skip("openssl is not installed: requests over TLS are not tested")
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def plain() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver
