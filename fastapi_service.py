"""A FastAPI shop with Rota inside: jobs, worker, schedules, and the pages under /rota.

Run it with ``uvicorn fastapi_service:shop``. ``ROTA_STORE`` names the store; without it the shop
keeps its jobs in ``rota.db``.
"""

from fastapi import FastAPI

from rota import JobStatus, Rota
from rota.errors import ResultTimeoutError

rota = Rota()


@rota.task
async def confirm(order: int, locale: str = "en") -> str:
    return f"order {order} confirmed in {locale}"


shop = FastAPI()
rota.attach(shop, "/rota")


@shop.post("/orders/{order}", status_code=202)
async def take_order(order: int) -> dict[str, str]:
    job = await confirm.enqueue(order=order)
    return {"job": job.id}


@shop.get("/confirmations/{job_id}")
async def read_confirmation(job_id: str) -> dict[str, str | None]:
    job = confirm.handle(job_id)
    try:
        return {"status": JobStatus.COMPLETED, "text": await job.result(timeout="30s")}
    except ResultTimeoutError:
        return {"status": await job.status(), "text": None}
