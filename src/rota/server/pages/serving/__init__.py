"""How a page is asked for and answered, whichever page it is."""
