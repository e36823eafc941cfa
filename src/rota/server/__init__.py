"""The service: REST, pages and probes as one ASGI application."""

from rota.server.app import create_app
from rota.server.settings import ServerSettings

__all__ = ["ServerSettings", "create_app"]
