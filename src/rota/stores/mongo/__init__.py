"""The store in MongoDB; imported only when an address asks for it, as it needs a driver."""
