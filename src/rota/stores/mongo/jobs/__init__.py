"""Jobs in a collection of MongoDB."""
