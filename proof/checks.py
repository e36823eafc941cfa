"""What ``make proof`` runs: the models in several configurations, and mutants of them."""

from typing import NamedTuple


class Check(NamedTuple):
    """One run of a model. ``is_refuted``: spin must find an error, or the model has no teeth."""

    model: str
    about: str
    defines: tuple[str, ...]
    is_refuted: bool = False
    is_liveness: bool = False


def _mutants(model: str, mutants: dict[str, tuple[str, ...]]) -> list[Check]:
    return [
        Check(model, f"mutant {name.lower()}", (*defines, f"MUTANT_{name}"), is_refuted=True)
        for name, defines in mutants.items()
    ]


def _stuck(model: str, mutants: dict[str, tuple[str, ...]]) -> list[Check]:
    return [
        check._replace(defines=(*check.defines, "LIVENESS"), is_liveness=True)
        for check in _mutants(model, mutants)
    ]


LEASE = [
    Check("lease", "two workers", ("FAULTS=2",)),
    Check("lease", "one worker, two attempts", ("FAULTS=2", "ONE_WORKER")),
    Check("lease", "three workers", ("FAULTS=1", "SLOTS=3")),
    Check("lease", "an operator cancels", ("FAULTS=1", "OPERATOR")),
    Check("lease", "inserts without an answer", ("FAULTS=1", "CLIENT_FAULTS")),
    Check("lease", "the job ends", ("FAULTS=1", "CLIENT_FAULTS", "LIVENESS"), is_liveness=True),
    Check(
        "lease", "it ends with one worker", ("FAULTS=1", "ONE_WORKER", "LIVENESS"), is_liveness=True
    ),
    *_mutants(
        "lease",
        {
            "SETTLE_WITHOUT_TOKEN": ("FAULTS=2",),
            "SETTLE_WITHOUT_STATUS": ("FAULTS=2",),
            "LEASE_KEEPS_TOKEN": ("FAULTS=2",),
            "EXTEND_WITHOUT_TOKEN": ("FAULTS=2",),
            "KEPT_BEFORE_THE_ANSWER": ("FAULTS=2",),
            "LOSS_WITHOUT_EXPIRY": ("FAULTS=2",),
            "START_LAPSED": ("FAULTS=2",),
            "RECLAIM_ANY": ("FAULTS=2",),
            "LOST_ANSWER_IS_FINAL": ("FAULTS=2",),
            "STALE_IS_WRITTEN": ("FAULTS=1", "OPERATOR"),
            "INSERT_AGAIN": ("FAULTS=1", "CLIENT_FAULTS"),
            "INSERT_UNANSWERED": ("FAULTS=1", "CLIENT_FAULTS"),
        },
    ),
    *_stuck(
        "lease",
        {"NO_SWEEP": ("FAULTS=1",), "NAMES_ARE_REUSED": ("FAULTS=1", "ONE_WORKER")},
    ),
]

ONCE = [
    Check("once", "at most once", ("FAULTS=4", "CALLERS=2", "AT_MOST_ONCE")),
    Check("once", "at least once", ("FAULTS=3", "CALLERS=2")),
    Check("once", "at most once, three callers", ("FAULTS=3", "CALLERS=3", "AT_MOST_ONCE")),
    Check("once", "at least once, three callers", ("FAULTS=1", "CALLERS=3")),
    Check("once", "every call returns", ("FAULTS=2", "LIVENESS"), is_liveness=True),
    Check(
        "once",
        "every call returns or is refused",
        ("FAULTS=3", "AT_MOST_ONCE", "LIVENESS"),
        is_liveness=True,
    ),
    *_mutants(
        "once",
        {
            "NO_CLAIM": ("FAULTS=2", "AT_MOST_ONCE"),
            "WRITE_WITHOUT_VERSION": ("FAULTS=2", "AT_MOST_ONCE"),
            "EXPIRED_CLAIM_BEGINS": ("FAULTS=2", "AT_MOST_ONCE"),
            "FAILURE_IS_FORGOTTEN": ("FAULTS=2", "AT_MOST_ONCE"),
            "DONE_BEFORE_THE_ACTION": ("FAULTS=2",),
            "DONE_OVER_DONE": ("FAULTS=2",),
            "REWRITE_ANY_CLAIM": ("FAULTS=2",),
            "RELEASE_BY_REMOVAL": ("FAULTS=3", "CALLERS=2"),
        },
    ),
    *_stuck("once", {"EXPIRED_CLAIM_WAITS": ("FAULTS=1",)}),
]

MOVE = [
    Check("move", "there and back", ("PAUSES=1", "MOVES=2")),
    Check("move", "two pauses", ("PAUSES=2", "MOVES=1")),
    Check("move", "the moves end", ("PAUSES=1", "MOVES=1", "LIVENESS"), is_liveness=True),
    *_mutants(
        "move",
        {
            "NO_FREEZE": ("PAUSES=1",),
            "COPY_BEFORE_ALL_KNOW": ("PAUSES=1",),
            "REMOVE_BEFORE_ALL_KNOW": ("PAUSES=1",),
            "SWITCH_AFTER_A_THAW": ("PAUSES=1",),
            "WRITE_WITHOUT_CLAIM": ("PAUSES=1",),
            "ACT_ON_OLD_VIEWS": ("PAUSES=1",),
        },
    ),
]

CHECKS = [*LEASE, *ONCE, *MOVE]
