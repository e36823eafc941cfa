"""What a judge of fleets objects to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that was broken, and how."""

    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"
