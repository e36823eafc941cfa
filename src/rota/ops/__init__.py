"""What an operator can do and ask, written once for REST, pages and the command line."""
