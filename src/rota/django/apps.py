"""The Django application: it adds ``manage.py rota``."""

from django.apps import AppConfig


class RotaConfig(AppConfig):
    name = "rota.django"
    label = "rota"
    verbose_name = "Rota"
