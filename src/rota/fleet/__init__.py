"""What every long-running process of Rota needs, whichever engine it runs.

Its identity, its sign of life in the store, its patience with a store that is away, its signals.
"""
