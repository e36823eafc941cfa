"""The service: REST API, pages and probes as one ASGI application."""

from rota.lazy import offer

_MODULES = {"GuardSettings": "http.context", "ServerSettings": "http.context", "create_app": "app"}
__all__ = [*_MODULES]  # noqa: PLE0604 - all of them are strings
__getattr__ = offer(__name__, _MODULES)
