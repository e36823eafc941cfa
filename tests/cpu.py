"""How much work a call is, in seconds of the processor: waiting for others does not count."""

import gc
from collections.abc import Callable
from time import process_time

ROUNDS = 5


def least_cpu_seconds(make_call: Callable[[], Callable[[], object]], enough: float) -> float:
    """The cheapest of some rounds, each with a call of its own; no more rounds once it is enough.

    What else happens on the machine can only make a round dearer: a cold cache, another program
    on the same core. Garbage of other tests is not collected meanwhile.
    """
    least = float("inf")
    for _ in range(ROUNDS):
        call = make_call()
        gc.disable()
        begun = process_time()
        try:
            call()
        finally:
            least = min(least, process_time() - begun)
            gc.enable()
        if least < enough:
            break
    return least
