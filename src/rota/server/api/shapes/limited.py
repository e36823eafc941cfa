"""Words whose limits are enforced where they are read, and not only shown.

They are for what no function of ``rota.jobs`` would check later.
"""

from typing import Annotated

from msgspec import Meta

from rota.jobs.misfits import IN_WORDS
from rota.jobs.search import HIGHEST_LIMIT

QueueName = Annotated[
    str,
    Meta(
        pattern="^[a-zA-Z0-9_]{1,64}$",
        description="A queue.",
        extra_json_schema={"examples": ["mail"]},
        extra={IN_WORDS: "must be 1 to 64 of the characters a-z, A-Z, 0-9 and _"},
    ),
]
NO_NUL = {"pattern": "^[^\\u0000]*$"}

SearchText = Annotated[str, Meta(min_length=1, max_length=255, extra_json_schema=NO_NUL)]
PriorityBound = Annotated[int, Meta(ge=1, le=10, description="A priority, from 1 to 10.")]
PageCursor = Annotated[
    str | None, Meta(description="The next_cursor of the page before; left out, the first.")
]
PageLimit = Annotated[
    int,
    Meta(
        description="How many to a page.",
        extra_json_schema={"minimum": 1, "maximum": HIGHEST_LIMIT},
    ),
]
