"""Speaks the service's REST interface: to a server by HTTP, or to a store in this process.

One way of asking for both, so that whoever asks cannot tell them apart.
"""

from rota.client.client import Client
from rota.client.connection import ServerAddress, StoreAddress, open_client

__all__ = ["Client", "ServerAddress", "StoreAddress", "open_client"]
