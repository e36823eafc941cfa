"""Documents: a version and a body each, in the order of their names."""
