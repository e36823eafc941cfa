"""A Flask shop that enqueues jobs. A separate worker runs them.

Run both on one store::

    gunicorn flask_service:shop
    rota work flask_service:rota
"""

from flask import Flask

from rota import Rota

rota = Rota()


@rota.task
def confirm(order: int, locale: str = "en") -> str:
    return f"order {order} confirmed in {locale}"


shop = Flask(__name__)


@shop.post("/orders/<int:order>")
def take_order(order: int) -> tuple[dict[str, str], int]:
    job = confirm.enqueue_sync(order=order)
    return {"job": job.id}, 202


@shop.get("/confirmations/<job_id>")
def read_confirmation(job_id: str) -> dict[str, str]:
    return {"text": confirm.handle(job_id).result_sync(timeout="30s")}
