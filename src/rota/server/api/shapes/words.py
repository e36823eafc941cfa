"""Words of requests and answers that several resources use, with their limits for the description.

The limits are shown, not enforced, here: ``rota.jobs`` checks them, and says better what is wrong.
"""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

AN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
AN_INSTANT = "2026-05-01T12:00:00Z"
PRINTABLE = "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]+$"
WORD = {"pattern": "^[A-Za-z0-9_.:-]{1,200}$"}

UUID = {"format": "uuid", "examples": [AN_ID]}
NAME = {"minLength": 1, "maxLength": 255, "pattern": PRINTABLE}
QUEUE = {"pattern": "^[a-zA-Z0-9_]{1,64}$", "examples": ["mail"]}
PRIORITY = {"minimum": 1, "maximum": 10}
DEPENDENCIES = {"maxItems": 50, "uniqueItems": True}
INSTANT = {"format": "date-time", "examples": [AN_INSTANT]}

Uuid = Annotated[str, Meta(description="The id of a job: a UUID.", extra_json_schema=UUID)]
Name = Annotated[
    str,
    Meta(
        description="What people call the job: 1 to 255 printable characters.",
        extra_json_schema={**NAME, "examples": ["Send the weekly report"]},
    ),
]
Queue = Annotated[
    str, Meta(description="The queue that workers take the job from.", extra_json_schema=QUEUE)
]
Kind = Annotated[
    str,
    Meta(
        description="Which handler runs the job.",
        extra_json_schema={**WORD, "examples": ["log.message"]},
    ),
]
Priority = Annotated[
    int,
    Meta(
        description="From 1 to 10; of two jobs that are due the higher comes first.",
        extra_json_schema=PRIORITY,
    ),
]
Payload = Annotated[
    Any,
    Meta(
        description="Any JSON value of up to 64 KiB; the handler is given it.",
        extra_json_schema={"examples": [{"message": "Hello"}]},
    ),
]
IdempotencyKey = Annotated[
    str,
    Meta(
        description="Makes the job the only one of its kind with that key.",
        extra_json_schema=NAME,
    ),
]
InstantText = Annotated[
    str,
    Meta(
        description="An instant: ISO 8601 with an offset from UTC.",
        extra_json_schema=INSTANT,
    ),
]
Moment = Annotated[datetime, Meta(tz=True, description="An instant, in UTC.")]
