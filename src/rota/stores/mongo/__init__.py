"""The store in a MongoDB database."""
