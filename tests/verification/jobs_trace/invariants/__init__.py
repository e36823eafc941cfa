"""The invariants, each as a function from evidence to breaches."""
