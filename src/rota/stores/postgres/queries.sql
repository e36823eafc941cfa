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
-- How long a migration may wait for others, in milliseconds, and that it may take however long
-- itself; until the end of the transaction.
-- $1 milliseconds, as text
SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', '0', true);

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
-- Makes, changes and removes documents where that is still current. No two writes name the same
-- document, and each kind comes in the order of names and is looked up one by one in that order:
-- programs that lock rows in one order do not end up waiting for each other in a circle.
-- $1 collections, $2 keys and $3 bodies of those to make; $4 collections, $5 keys, $6 expected
-- versions and $7 bodies of those to change; $8 collections, $9 keys and $10 expected versions of
-- those to remove. The answer is one row. Its columns are NULL where all of a kind were current;
-- otherwise they tell which were, made documents by name and the others by position from 1.
WITH made AS (
    INSERT INTO rota.documents (collection, key, version, body)
    SELECT wanted.collection, wanted.key, 1, wanted.body
    FROM unnest($1::text[], $2::text[], $3::bytea[]) AS wanted (collection, key, body)
    ON CONFLICT (collection, key) DO NOTHING
    RETURNING collection, key
), changed AS (
    UPDATE rota.documents AS document SET version = document.version + 1, body = wanted.body
    FROM unnest($4::text[], $5::text[], $6::bigint[], $7::bytea[])
        WITH ORDINALITY AS wanted (collection, key, expected, body, position)
    WHERE document.collection = wanted.collection AND document.key = wanted.key
        AND document.version = wanted.expected
    RETURNING wanted.position
), removed AS (
    DELETE FROM rota.documents AS document
    USING unnest($8::text[], $9::text[], $10::bigint[])
        WITH ORDINALITY AS wanted (collection, key, expected, position)
    WHERE document.collection = wanted.collection AND document.key = wanted.key
        AND document.version = wanted.expected
    RETURNING wanted.position
), counted AS (
    SELECT
        (SELECT count(*) FROM made) < cardinality($1) AS misses_made,
        (SELECT count(*) FROM changed) < cardinality($4) AS misses_changed,
        (SELECT count(*) FROM removed) < cardinality($8) AS misses_removed
)
SELECT
    CASE WHEN misses_made THEN ARRAY(SELECT collection FROM made) END AS made_collections,
    CASE WHEN misses_made THEN ARRAY(SELECT key FROM made) END AS made_keys,
    CASE WHEN misses_changed THEN ARRAY(SELECT position FROM changed) END AS changed,
    CASE WHEN misses_removed THEN ARRAY(SELECT position FROM removed) END AS removed
FROM counted;
