"""Explains why a job ran, did not run, waits, or will run."""

from rota.ops.explain.explanation import Explanation, Reason, ReasonCode
from rota.ops.explain.job import explain, explain_job
from rota.ops.explain.occurrence import explain_job_at

__all__ = ["Explanation", "Reason", "ReasonCode", "explain", "explain_job", "explain_job_at"]
