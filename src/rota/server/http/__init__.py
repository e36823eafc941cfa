"""HTTP for the service: the route table, reading requests, errors, access, limits and OpenAPI."""
