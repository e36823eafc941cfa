"""What the store asks of MongoDB all the time, by the name of the function that makes it."""

from datetime import UTC, datetime, timedelta

from pymongo import DeleteOne, UpdateMany, UpdateOne

from rota.jobs import JobFilter, JobStatus, Lost, Succeeded, decide_lease, decide_outcome
from rota.stores.mongo import pipelines
from rota.stores.mongo.documents.queries import by_ids as documents_by_ids
from rota.stores.mongo.documents.queries import scan_page
from rota.stores.mongo.gateway import Query, Raw
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.steps.names import DOCUMENTS, JOBS
from rota.stores.protocol import HeldLease, LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EARLIER = NOW - timedelta(hours=1)
OF_A = JobFilter(tenant="a")
READY = JobFilter(tenant="a", status=JobStatus.READY)
SERIES = JobFilter(tenant="a", status=JobStatus.READY, is_recurring=True)

HOT: dict[str, Query] = {
    "by_ids": queries.by_ids(["a", "b"]),
    "by_ids of documents": documents_by_ids(["a"]),
    "find_intents": pipelines.find_intents(["a"]),
    "by_digests": queries.by_digests(["a"]),
    "dependents_of": queries.dependents_of(["a"]),
    "became_due": queries.became_due(NOW, 10),
    "next_tenant": queries.next_tenant(NOW, "a", None, None),
    "next_tenant in queues": queries.next_tenant(NOW, "a", "b", ["q", "r"]),
    "first_in_turn": queries.first_in_turn(NOW, "a", None, 10, None),
    "first_in_turn of a queue": queries.first_in_turn(NOW, "a", "b", 10, ["q"]),
    "has_due": queries.has_due(NOW, "a", ["q"]),
    "has_due in any queue": queries.has_due(NOW, "a", None),
    "next_queue": queries.next_queue(NOW, "a", ""),
    "first_due": queries.first_due(NOW, "a", 10, None),
    "first_due in queues": queries.first_due(NOW, "a", 10, ["q", "r"]),
    "first_due of a priority": queries.first_due(NOW, "a", 10, ["q"], 5),
    "expired": queries.expired(NOW, 10, None),
    "expired after": queries.expired(NOW, 10, (EARLIER, "a")),
    "any_due": queries.any_due(NOW, ["q"], None),
    "any_due anywhere": queries.any_due(NOW, None, None),
    "next_due": queries.next_due("later", None, None),
    "next_due in queues": queries.next_due("later", ["q", "r"], None),
    "list_page": queries.list_page(OF_A, None, 10),
    "list_page after": queries.list_page(OF_A, (NOW, "a"), 10),
    "list_page by status": queries.list_page(READY, None, 10),
    "list_page of series": queries.list_page(SERIES, None, 10),
    "ended": queries.ended(NOW, 10),
    "scan_page": scan_page("tasks", "a", 10),
    "list_claims": pipelines.list_claims(JOBS, 10),
    "list_claims on documents": pipelines.list_claims(DOCUMENTS, 10),
    "list_claimed": pipelines.list_claimed(JOBS, "step", 10),
    "list_claimed of documents": pipelines.list_claimed(DOCUMENTS, "step", 10),
    "list_intents": pipelines.list_intents(10),
    "count_running": Query(JOBS, queries.count_running()[0]["$match"], by=queries.SURVEYED),
    "survey": Query(JOBS, queries.survey(NOW, None)[0]["$match"], by=queries.SURVEYED),
    "survey of a tenant": Query(JOBS, queries.survey(NOW, "a")[0]["$match"], by=queries.SURVEYED),
}

HOT_PIPELINES: dict[str, list[Raw]] = {
    "count_running": queries.count_running(),
    "survey": queries.survey(NOW, None),
    "survey of a tenant": queries.survey(NOW, "a"),
}

A_REQUEST = LeaseRequest(worker="worker", limit=10, lease_for=timedelta(minutes=1), queues=["q"])
A_CHANGE = decide_outcome(
    decide_lease(a_job(), "worker", timedelta(minutes=1), NOW).job, Succeeded(), NOW
)
A_LOSS = decide_outcome(
    decide_lease(a_job(), "worker", timedelta(minutes=1), EARLIER).job, Lost(), NOW
)

HOT_WRITES: dict[str, UpdateOne | UpdateMany | DeleteOne] = {
    "promote": queries.promote(["a", "b"], NOW),
    "claim": queries.claim(["a", "b"], "mark", A_REQUEST, NOW),
    "set_aside": queries.set_aside(["a", "b"]),
    "extend": queries.extend(HeldLease("a", 1), NOW),
    "settle": queries.settle(A_CHANGE, "mark", NOW),
    "settle as lost": queries.settle(A_LOSS, "mark", NOW),
    "settle_and_remove": queries.settle_and_remove(A_CHANGE, NOW),
    "remove_at": queries.remove_at("a", 1),
}
