"""One of the things that a house runs."""

import asyncio
from typing import Protocol


class Part(Protocol):
    """Runs until it is told to stop, and then comes to its end by itself."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    async def run(self) -> None:
        """Work until ``stop``; whatever goes wrong is raised."""
        ...

    def stop(self) -> None:
        """The first time: begin nothing more, and finish. The second time: end now."""
        ...


class StopWish:
    """How often a part was told to stop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def stop(self) -> None:
        (self.hurried if self.asked.is_set() else self.asked).set()
