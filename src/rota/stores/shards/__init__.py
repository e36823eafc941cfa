"""One store over several: each tenant lies wholly on one shard. Decision 0026 has the rules."""
