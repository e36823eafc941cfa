"""The tasks of the shop."""

from shop.models import Order

try:
    from django.tasks import task
except ImportError:  # Django 5.2
    from django_tasks import task


@task
def confirm(number: int) -> str:
    Order.objects.filter(number=number).update(is_confirmed=True)
    return f"order {number} confirmed"
