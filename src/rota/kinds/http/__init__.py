"""``http.request``: asks a program elsewhere, and cannot be turned inwards."""
