"""Commands that look after jobs, by way of the service's own interface."""
