"""What happens to a store, as those who use it see it."""

from rota.events.event import INFO, WARNING, Event


class StoreFailed(Event, frozen=True):
    """The store stopped answering; said once per outage, it is tried again until it recovers."""

    level = WARNING
    error: str


class StoreRecovered(Event, frozen=True):
    level = INFO
