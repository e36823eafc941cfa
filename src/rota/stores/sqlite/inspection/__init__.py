"""What an operator asks of a file: how it stands, and to be brought up to date."""

from rota.stores.sqlite.inspection.inspection import inspect_file, migrate_file

__all__ = ["inspect_file", "migrate_file"]
