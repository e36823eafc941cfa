"""Python modules that a user names, and what is found in them."""
