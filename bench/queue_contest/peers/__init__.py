"""One program for each contestant, all with the same verbs, each in an environment of its own."""
