"""Gates: may this job run now, and if not, when? No I/O, no clock, no chance."""

from rota.gates.verdict import Closed, Gate, Open, Verdict

__all__ = ["Closed", "Gate", "Open", "Verdict"]
