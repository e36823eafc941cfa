"""What becomes of jobs that are kept: settled, amended, removed."""
