"""A server that is found by asking Sentinels, who may name another one tomorrow."""
