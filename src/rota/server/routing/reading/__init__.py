"""How a request becomes values: strictly, and with the field named that is wrong."""
