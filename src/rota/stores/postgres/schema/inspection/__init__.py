"""What an operator asks of a database: how it stands, and to be brought up to date."""

from rota.stores.postgres.schema.inspection.inspection import inspect_database, migrate_database

__all__ = ["inspect_database", "migrate_database"]
