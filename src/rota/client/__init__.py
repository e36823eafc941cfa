"""A client of the REST API: of a server over HTTP, or of a store in this process."""

from rota.client.client import Client
from rota.client.connection import ServerAddress, StoreAddress, open_client

__all__ = ["Client", "ServerAddress", "StoreAddress", "open_client"]
