"""The statements of ``queries.sql`` by attribute; one missing or too many fails on import."""

from dataclasses import dataclass

from rota.stores.statements import load_statements


@dataclass(frozen=True, slots=True)
class Queries:
    """Every statement of the backend by name; what each does is said in the file."""

    configure_writer: str
    configure_reader: str
    use_write_ahead_log: str
    measure_file: str
    check_structure: str
    check_edges: str
    read_version: str
    begin_write: str
    commit: str
    roll_back: str
    create_migrations: str
    read_migrations: str
    record_migration: str
    scan_page: str
    read_keys: str
    insert: str
    update: str
    remove: str
    is_taken: str
    has_table: str
    rescue_forwards: str
    rescue_backwards: str
    restore: str


QUERIES = Queries(**load_statements("rota.stores.sqlite", "queries.sql"))
