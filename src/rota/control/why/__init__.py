"""Why a job ran, did not run, waits, or will run then."""

from rota.control.why.explaining import explain, explain_job
from rota.control.why.explanation import Explanation, Reason, ReasonCode

__all__ = ["Explanation", "Reason", "ReasonCode", "explain", "explain_job"]
