"""Not contestants: the bare statements, to show how fast a store can be."""
