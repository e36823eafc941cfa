"""The service: REST API, pages and probes as one ASGI application."""

from rota.server.app import create_app
from rota.server.http.context import GuardSettings, ServerSettings

__all__ = ["GuardSettings", "ServerSettings", "create_app"]
