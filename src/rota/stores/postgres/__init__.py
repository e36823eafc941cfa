"""Documents and jobs in a PostgreSQL database, shared by any number of processes and hosts."""
