"""Who gets which job, and for how long."""
