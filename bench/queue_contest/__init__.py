"""The parts of bench/queue.py: contestants, what is measured of them, and what is printed."""
