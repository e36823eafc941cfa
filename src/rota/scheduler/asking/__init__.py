"""Questions to a store, answered by the functions that decide."""
