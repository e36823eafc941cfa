"""The pages of the shop, and those of Rota below /rota/."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt

from shop.models import Order
from shop.tasks import confirm


@csrf_exempt  # a program calls it, not a browser
def take_order(request: HttpRequest, number: int) -> JsonResponse:
    """Store the order and enqueue its confirmation: both or neither, on PostgreSQL."""
    with transaction.atomic():
        Order.objects.create(number=number)
        result = confirm.enqueue(number)
        if request.GET.get("fail"):
            raise ValueError("the order is refused after all")
    return JsonResponse({"task": result.id}, status=202)


def read_confirmation(_request: HttpRequest, task_id: str) -> JsonResponse:
    result = confirm.get_result(task_id)
    text = result.return_value if result.is_finished else None
    return JsonResponse({"status": result.status, "text": text})


urlpatterns = [
    path("orders/<int:number>", take_order),
    path("confirmations/<str:task_id>", read_confirmation),
    path("rota/", include("rota.django.urls")),
]
