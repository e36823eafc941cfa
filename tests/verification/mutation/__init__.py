"""How many small mistakes in a package its tests notice.

``python -m tests.verification.mutation --package jobs --sample 80 --seed 1`` changes one place of a
module at a time, in a process of its own, and runs the tests of the package that reach this place.
It prints the share that was noticed, and each change that was not. ``make mutants`` tries the four
packages whose rules everything else rests on.
"""
