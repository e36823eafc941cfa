"""The collections of a store, and the fields that every document of theirs may have."""

DOCUMENTS = "rota_documents"
JOBS = "rota_jobs"
INTENTS = "rota_intents"
SCHEMA = "rota_schema"

KEPT_IN = (JOBS, DOCUMENTS)
"""Where steps write, in the order in which what they wrote is revealed."""

LOCK = "lock"
"""The id of the step that has laid claim to the document."""
AFTER = "after"
"""What the document will be if that step is carried out; None when it will be gone."""
VERSION = "version"
"""Grows with every write. A document without one is not there yet."""

PENDING = "pending"
COMMITTED = "committed"

BEAT = "beat"
"""Grows while a long step is under way, so that others see that its process lives."""
