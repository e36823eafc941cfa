"""The process: configuration, wiring, parts, start and stop."""
