"""Labels of metrics, kept from multiplying: each distinct value costs memory for ever."""

OTHER = "other"


class BoundedLabel:
    """The first ``limit`` values that come, as they are; all others are ``other``."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[str, str] = {}

    def __call__(self, value: str) -> str:
        known = self._known.get(value)
        if known is not None:
            return known
        if len(self._known) >= self._limit:
            return OTHER
        self._known[value] = value
        return value
