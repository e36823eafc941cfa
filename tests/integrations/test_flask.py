"""A Flask service under gunicorn, with a worker beside it."""

from pathlib import Path

import pytest
from tests.integrations.services import EXAMPLES, find_port, running

pytestmark = pytest.mark.process

PREFORKED = ("--workers", "2", "--preload")


@pytest.mark.parametrize("manner", [PREFORKED, ("--worker-class", "gthread", "--threads", "4")])
def test_a_flask_service_enqueues_and_waits_for_results(
    tmp_path: Path, manner: tuple[str, ...]
) -> None:
    port, store = find_port(), f"sqlite:///{tmp_path / 'rota.db'}"
    web = ["gunicorn", "flask_service:shop", "--bind", f"127.0.0.1:{port}", *manner]
    with (
        running(web, EXAMPLES, port, LOG=str(tmp_path / "web"), ROTA_STORE=store) as service,
        running(
            ["rota", "work", "flask_service:rota"],
            EXAMPLES,
            None,
            LOG=str(tmp_path / "work"),
            ROTA_STORE=store,
        ),
    ):
        for order in range(6):
            status, taken = service.ask(f"/orders/{order}", "POST")
            assert status == 202, service.printed
            assert service.ask(f"/confirmations/{taken['job']}") == (
                200,
                {"text": f"order {order} confirmed in en"},
            )
