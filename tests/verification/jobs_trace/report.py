"""What the judge of a history of jobs says."""

from dataclasses import dataclass
from typing import Literal

from rota.jobs import JobId

Invariant = Literal["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I11", "I12"]

INVARIANTS: dict[Invariant, str] = {
    "I1": "no job that was acknowledged disappears",
    "I2": "a job ends once, in one state",
    "I3": "the numbers of a job's attempts go up by one",
    "I4": "the leases of one job never overlap",
    "I5": "whatever is done to a job is done under its present lease",
    "I6": "of jobs with the same key there is one",
    "I7": "each occurrence of a series has one job",
    "I8": "what is kept is what was handed in, less what was removed",
    "I11": "no job is leased before it is due",
    "I12": "when nothing disturbs any more, every due job is started in time",
}


@dataclass(frozen=True, slots=True)
class Breach:
    """One invariant broken: of which job, if it is about one, and how."""

    invariant: Invariant
    job_id: JobId | None
    message: str

    def __str__(self) -> str:
        about = "" if self.job_id is None else f" job {self.job_id}:"
        return f"{self.invariant}{about} {self.message}"


@dataclass(frozen=True, slots=True)
class JobsVerdict:
    """What was found, and in how much."""

    breaches: tuple[Breach, ...]
    entry_count: int
    job_count: int

    @property
    def ok(self) -> bool:
        return not self.breaches

    @property
    def invariants(self) -> frozenset[Invariant]:
        """Those that were broken."""
        return frozenset(breach.invariant for breach in self.breaches)

    def assert_ok(self) -> None:
        """Raise an AssertionError that tells the first breaches."""
        if self.breaches:
            raise AssertionError(self.render())

    def render(self, limit: int = 10) -> str:
        """The first breaches in words."""
        found = f"{len(self.breaches)} breaches in {self.entry_count} records"
        lines = [f"{found} of {self.job_count} jobs"]
        for breach in self.breaches[:limit]:
            lines += [f"  {breach}", f"    ({breach.invariant}: {INVARIANTS[breach.invariant]})"]
        return "\n".join(lines)
