"""What is kept, as it is, taken from one store to another."""
