"""Job queues of others that keep their jobs in Redis."""
