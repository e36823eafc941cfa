"""A small Django site whose tasks Rota runs."""
