"""Who is handed which job, for how long, and when the next is due."""
