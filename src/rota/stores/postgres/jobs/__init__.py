"""Jobs in the database: the verbs of ``JobStore`` as statements."""
