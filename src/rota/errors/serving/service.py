"""What can go wrong in running the service, and in asking one."""

from rota.errors.groups import ConflictError, StoreError


class AddressUnusableError(ConflictError):
    """The service cannot listen where it was told to: usually another program does already."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"Cannot listen on {host} port {port}: {reason}",
            {"host": host, "port": port, "reason": reason},
        )
        self.host = host
        self.port = port
        self.reason = reason


class ServerUnavailableError(StoreError):
    """A server did not answer, or not as a Rota does."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"The server at {url} {reason}", {"url": url, "reason": reason})
        self.url = url
        self.reason = reason
