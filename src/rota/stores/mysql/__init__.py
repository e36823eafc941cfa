"""The store in a MariaDB or MySQL database."""
