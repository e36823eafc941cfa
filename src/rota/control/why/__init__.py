"""Why a job ran, did not run, waits, or will run then."""

from rota.control.why.explaining import explain, explain_job
from rota.control.why.explanation import Explanation, Reason, ReasonCode
from rota.control.why.moment import explain_job_at

__all__ = ["Explanation", "Reason", "ReasonCode", "explain", "explain_job", "explain_job_at"]
