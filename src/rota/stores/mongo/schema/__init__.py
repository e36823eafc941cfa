"""What a database has to have for a store: indexes, and a mark that says who made them."""
