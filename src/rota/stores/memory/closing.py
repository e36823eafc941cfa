"""Whether a store is still open: the one thing its halves share."""

from rota.errors import StoreClosedError


class Closable:
    """Open from the beginning; once closed, closed for good."""

    def __init__(self) -> None:
        self._is_closed = False

    async def close(self) -> None:
        """Refuse all later calls; closing twice is no error."""
        self._is_closed = True

    def _refuse_when_closed(self) -> None:
        if self._is_closed:
            raise StoreClosedError
