"""The route table: typed entries, and how a request is read, answered and described."""
