"""The search index: terms of jobs, kept in documents and built in the background."""
