"""Jobs in the file: the verbs of ``JobStore`` as statements inside the writer's transactions."""
