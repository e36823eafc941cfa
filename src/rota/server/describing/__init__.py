"""The route table in words: an OpenAPI document for programs, a page for people."""

from rota.server.describing.description import Description

__all__ = ["Description"]
