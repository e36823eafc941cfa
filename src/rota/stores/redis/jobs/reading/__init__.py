"""Jobs as they are: one by one, in pages, counted."""
