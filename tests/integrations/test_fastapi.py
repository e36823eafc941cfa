"""A FastAPI service with Rota inside, under uvicorn."""

import signal
from pathlib import Path

import pytest
from tests.integrations.services import EXAMPLES, find_port, running
from tests.process.service.up_process import run_rota

pytestmark = pytest.mark.process


def test_a_fastapi_service_runs_its_jobs_and_shows_the_pages(tmp_path: Path) -> None:
    port, store = find_port(), f"sqlite:///{tmp_path / 'rota.db'}"
    command = ["uvicorn", "fastapi_service:shop", "--port", str(port)]
    with running(command, EXAMPLES, port, LOG=str(tmp_path / "log"), ROTA_STORE=store) as service:
        status, taken = service.ask("/orders/7", "POST")
        assert status == 202
        assert service.ask(f"/confirmations/{taken['job']}") == (
            200,
            {"status": "COMPLETED", "text": "order 7 confirmed in en"},
        )
        assert service.ask("/rota/api/v1/jobs")[0] == 401
        token = _issue_token(tmp_path, store)
        status, listed = service.ask("/rota/api/v1/jobs", Authorization=f"Bearer {token}")
        assert status == 200
        assert [job["kind"] for job in listed["items"]] == ["fastapi_service.confirm"]
        status, page = service.ask("/rota/admin/sign-in")
        assert status == 200
        assert "/rota/admin" in page
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(timeout=60) in (0, -signal.SIGTERM), service.printed
        assert "Traceback" not in service.printed


def _issue_token(folder: Path, store: str) -> str:
    made = run_rota(folder, "tokens", "create", "reader", "--scope", "read", "--store", store)
    return next(word for word in made.stdout.split() if word.startswith("rota_"))
