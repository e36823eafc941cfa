"""Who comes next, and who holds on."""
