"""A small Celery project, as a user has it."""
