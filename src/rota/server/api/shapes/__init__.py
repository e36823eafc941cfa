"""What requests and answers are made of: words with their limits, and the bodies of jobs."""

from rota.server.api.shapes.new_job import NewJob, admit_asked
from rota.server.api.shapes.words import (
    IdempotencyKey,
    InstantText,
    Kind,
    Moment,
    Name,
    Payload,
    Priority,
    Queue,
    Uuid,
)

__all__ = [
    "IdempotencyKey",
    "InstantText",
    "Kind",
    "Moment",
    "Name",
    "NewJob",
    "Payload",
    "Priority",
    "Queue",
    "Uuid",
    "admit_asked",
]
