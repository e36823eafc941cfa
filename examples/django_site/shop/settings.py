"""Settings of the site.

``DATABASE_URL`` may name a PostgreSQL database: then orders and tasks are in one database, and a
task that is enqueued in a transaction exists only if the transaction commits.
"""

import os
from importlib.util import find_spec
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

FOLDER = Path(__file__).resolve().parent.parent
SECRET_KEY = os.environ.get("SECRET_KEY", "only for this example")
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
USE_TZ = True
ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["shop", "rota.django"]
if find_spec("django.tasks") is None:  # Django 5.2
    INSTALLED_APPS.append("django_tasks")

url = os.environ.get("DATABASE_URL", "")
if url:
    parts = conninfo_to_dict(url)
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": parts.get("host", ""),
            "PORT": parts.get("port", ""),
            "NAME": parts["dbname"],
            "USER": parts.get("user", ""),
            "PASSWORD": parts.get("password", ""),
        }
    }
    OPTIONS = {"STORE": url, "DATABASE": "default"}
else:
    DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "shop.db"}}
    OPTIONS = {"STORE": os.environ.get("ROTA_STORE", f"sqlite:///{FOLDER / 'rota.db'}")}

TASKS = {"default": {"BACKEND": "rota.django.RotaBackend", "QUEUES": [], "OPTIONS": OPTIONS}}
