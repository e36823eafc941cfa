"""Steps: writes to several documents that come about all or none, whoever dies on the way."""
