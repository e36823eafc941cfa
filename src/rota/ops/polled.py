"""Explains polled jobs: those in the store, and documents that pollers report."""

from collections.abc import Sequence
from datetime import datetime

from rota.errors import DamagedJobError
from rota.fleet.presence import PolledDocument, PollerPresence, list_pollers
from rota.jobs import Job, JobStatus
from rota.jobs.record import DEFAULT_TENANT
from rota.ops.explanation import Answer, Explanation, Finding, Reason, format_duration, show
from rota.poller.jobs import DEFAULT_QUEUE, PolledJobs, wakes_at
from rota.stores.protocol import DocumentStore

_QUEUE = "queue "
"""The source of a poller of a queue begins with this."""


async def list_pollers_of(
    store: DocumentStore, now: datetime, tenant: str
) -> Sequence[PollerPresence]:
    """The pollers that the tenant may see. Polled jobs belong to the default tenant."""
    return await list_pollers(store, now) if tenant == DEFAULT_TENANT else ()


async def explain_polled(
    store: DocumentStore, now: datetime, tenant: str, document_id: str
) -> Explanation | None:
    """Explain a polled job; None if no queue and no present poller knows the id."""
    if tenant != DEFAULT_TENANT:
        return None
    pollers = await list_pollers(store, now)
    sources = {_QUEUE + DEFAULT_QUEUE, *(it.source for it in pollers)}
    for source in sorted(it for it in sources if it.startswith(_QUEUE)):
        try:
            job = await PolledJobs(store, source.removeprefix(_QUEUE)).get(document_id)
        except DamagedJobError:
            continue
        if job is not None:
            return _explain_job(job, source, pollers, now)
    for poller in pollers:
        document = poller.find(document_id)
        if document is not None:
            return _explain_document(document, poller, now)
    return None


def _explain_job(
    job: Job, source: str, pollers: Sequence[PollerPresence], now: datetime
) -> Explanation:
    at = wakes_at(job)
    if at is None:
        text = f"It was last processed at {show(job.updated_at)}."
        reason = Reason("succeeded", text, at=job.updated_at)
        return Finding("ran", "It is done.", [reason]).conclude(job.id, job.status, now)
    present = [it for it in pollers if it.source == source]
    known = [(it.find(job.id), it) for it in present]
    reasons = [_describe(document, it) for document, it in known if document is not None]
    if not present:
        reasons.append(Reason("no_worker", f"No poller of {source} runs now."))
    if at > now and job.lease is not None:
        sentence = f"{job.lease.worker} has locked it until {show(at)}."
        found = Finding("running", sentence, reasons, at)
    elif at > now:
        found = Finding("will run", f"It sleeps until {show(at)}.", reasons, at)
    else:
        reasons.append(Reason("due", f"It is due since {show(at)}.", at=at))
        sentence = f"It waits for a poller of {source}, for {format_duration(now - at)}."
        found = Finding("due", sentence, reasons)
    return found.conclude(job.id, job.status, now)


def _explain_document(
    document: PolledDocument, poller: PollerPresence, now: datetime
) -> Explanation:
    reasons = [_describe(document, poller)]
    answer: Answer
    if document.error is None:
        sentence = f"A poller of {poller.source} processes it since {show(document.since)}."
        status, answer = JobStatus.RUNNING, "running"
    else:
        sentence = f"It failed in {poller.source}, and is due again at {show(document.until)}."
        status, answer = JobStatus.READY, "failed"
    return Finding(answer, sentence, reasons, document.until).conclude(document.id, status, now)


def _describe(document: PolledDocument, poller: PollerPresence) -> Reason:
    """What the poller does with the document, or did."""
    begin = show(document.since)
    if document.error is None:
        text = f"{poller.id} has locked it from {begin} to {show(document.until)}."
        return Reason("lease", text, at=document.since, until=document.until)
    text = f"{poller.id} began it at {begin} and failed: {document.error}."
    return Reason("retry", text, at=document.since, until=document.until)
