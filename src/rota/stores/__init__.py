"""Stores: the contract, the rules of job stores, and the backends."""
