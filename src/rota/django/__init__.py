"""Rota for Django: a backend for ``django.tasks``, a worker command and the pages.

::

    INSTALLED_APPS = [..., "rota.django"]
    TASKS = {"default": {"BACKEND": "rota.django.RotaBackend", "OPTIONS": {"STORE": "..."}}}

Django 6.0 and newer has ``django.tasks``; with Django 5.2 the package ``django-tasks`` has the same
names.
"""

from importlib import import_module
from typing import Any

__all__ = ["RotaBackend"]


def __getattr__(name: str) -> Any:
    if name == "RotaBackend":
        # Django loads this package before its settings are complete; the backend needs them.
        return import_module("rota.django.backend").RotaBackend
    raise AttributeError(f"module 'rota.django' has no attribute {name!r}")
