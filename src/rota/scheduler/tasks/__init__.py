"""What a task is and what may become of it: decisions over frozen records, no waiting, no I/O."""
