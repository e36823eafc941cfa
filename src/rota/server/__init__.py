"""The service: REST, pages and probes as one ASGI application."""
