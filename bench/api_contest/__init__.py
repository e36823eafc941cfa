"""The parts of bench/api.py."""
