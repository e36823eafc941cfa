"""The store in Redis or Valkey."""
