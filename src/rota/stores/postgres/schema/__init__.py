"""The schema in the database: made, brought up to date, and looked at."""

from rota.stores.postgres.schema.migration import MIGRATIONS, migrate

__all__ = ["MIGRATIONS", "migrate"]
