"""How many small mistakes in a package its tests notice.

``python -m tests.verification.mutation --package jobs --sample 60 --seed 1`` changes one place of a
module at a time, in a process of its own, and runs the tests of the package. It prints the share
that was noticed, and each change that was not.
"""
