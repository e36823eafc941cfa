"""Documents in the database: writes, one call's or several callers' together."""
