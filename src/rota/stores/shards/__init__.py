"""One store over several: each tenant lies wholly on one shard. Decision 0026 has the rules."""

PREFIX = "shards:"
"""The address of such a store begins with it."""
