from rota.server.app import create_app as create_app
from rota.server.http.context import GuardSettings as GuardSettings
from rota.server.http.context import ServerSettings as ServerSettings

__all__ = ["GuardSettings", "ServerSettings", "create_app"]
