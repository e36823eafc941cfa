-- Every statement the PostgreSQL store runs.
--
-- The schema is written as rota; a store that was given another name puts it in its place.

-- name: read_surroundings
-- The encoding of the database, and whether the schema and its list of migrations exist.
SELECT
    current_setting('server_encoding') AS encoding,
    to_regnamespace('rota') IS NOT NULL AS has_schema,
    to_regclass('rota.migrations') IS NOT NULL AS has_migrations;

-- name: begin_write
-- Each statement must see what others have committed before it, whatever the database's default is.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;

-- name: commit
COMMIT;

-- name: roll_back
ROLLBACK;

-- name: wait_for_locks
-- How long a migration may wait for others, in milliseconds; until the end of the transaction.
-- $1 milliseconds, as text
SELECT set_config('lock_timeout', $1, true);

-- name: lock_schema
-- One migrates at a time, until the end of its transaction.
SELECT pg_advisory_xact_lock(hashtextextended('rota.migrations', 0));

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS rota;

-- name: create_migrations
CREATE TABLE IF NOT EXISTS rota.migrations (
    number        integer NOT NULL PRIMARY KEY,
    name          text NOT NULL,
    is_compatible boolean NOT NULL,
    checksum      text NOT NULL
);

-- name: read_migrations
SELECT number, name, is_compatible, checksum FROM rota.migrations ORDER BY number;

-- name: record_migration
-- $1 number, $2 name, $3 whether it is compatible, $4 checksum
INSERT INTO rota.migrations (number, name, is_compatible, checksum) VALUES ($1, $2, $3, $4);

-- name: scan_page
-- $1 collection, $2 the last key of the page before (empty at first), $3 how many
SELECT key, version, body FROM rota.documents
WHERE collection = $1 AND key > $2
ORDER BY key
LIMIT $3;

-- name: read_keys
-- $1 collection, $2 keys
SELECT key, version, body FROM rota.documents
WHERE collection = $1 AND key = ANY ($2::text[]);

-- name: apply_writes
-- Applies those writes that are current and answers with their positions, counted from 1. No two
-- of them name the same document, and they come in the order of their names: whoever locks rows
-- in one order does not end up waiting for each other in a circle.
-- $1 collections, $2 keys, $3 expected versions (NULL: none must be there), $4 bodies (NULL: remove)
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[])
    WITH ORDINALITY AS write (collection, key, expected, body, position)
), made AS (
    INSERT INTO rota.documents (collection, key, version, body)
    SELECT collection, key, 1, body FROM wanted WHERE expected IS NULL
    ON CONFLICT (collection, key) DO NOTHING
    RETURNING collection, key
), changed AS (
    UPDATE rota.documents AS document SET version = document.version + 1, body = wanted.body
    FROM wanted
    WHERE document.collection = wanted.collection AND document.key = wanted.key
        AND document.version = wanted.expected AND wanted.body IS NOT NULL
    RETURNING wanted.position
), removed AS (
    DELETE FROM rota.documents AS document USING wanted
    WHERE document.collection = wanted.collection AND document.key = wanted.key
        AND document.version = wanted.expected AND wanted.body IS NULL
    RETURNING wanted.position
)
SELECT position FROM wanted JOIN made USING (collection, key)
UNION ALL
SELECT position FROM changed
UNION ALL
SELECT position FROM removed;
