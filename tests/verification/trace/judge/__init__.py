"""How a trace is judged: the theory's states, replayed, and its axioms, tested at each record."""
