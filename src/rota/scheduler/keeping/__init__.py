"""What is kept in the store: tasks, claims, and which instances are alive."""
