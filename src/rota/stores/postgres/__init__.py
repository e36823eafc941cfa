"""Documents in a PostgreSQL database, shared by any number of processes on any number of hosts."""
