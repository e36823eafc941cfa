"""Jobs in MariaDB: the plain loop of one job at a time."""
