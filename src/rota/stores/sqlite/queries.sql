-- Every statement the SQLite store runs.
--
-- insert, update, remove and is_taken take the four fields of a DocumentWrite as they come: ?1 the
-- collection, ?2 the key, ?3 the expected version, ?4 the body. So a stream of writes is handed to
-- SQLite without being rearranged; conditions that hold anyway are there to name all four.

-- name: configure_writer
-- A commit is on the disk before it is acknowledged, on macOS too; damaged cells are noticed when
-- read; a log that once grew large is cut back to 64 MiB.
PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON;
PRAGMA checkpoint_fullfsync = ON;
PRAGMA cell_size_check = ON;
PRAGMA trusted_schema = OFF;
PRAGMA cache_size = -65536;
PRAGMA journal_size_limit = 67108864;

-- name: configure_reader
PRAGMA query_only = ON;
PRAGMA cell_size_check = ON;
PRAGMA trusted_schema = OFF;
PRAGMA cache_size = -8192;

-- name: use_write_ahead_log
-- Answers with the mode in force: some file systems cannot do it.
PRAGMA journal_mode = WAL;

-- name: measure_file
-- Reads the first page and the schema, and compares the header with the length of the file.
SELECT page_count * page_size AS file_size
FROM pragma_page_count, pragma_page_size, (SELECT count(*) FROM sqlite_schema);

-- name: check_structure
-- Walks the whole file; only for small ones.
PRAGMA quick_check(1);

-- name: check_edges
-- Walks down both edges of the trees of documents and jobs.
SELECT * FROM (SELECT 1 FROM documents ORDER BY collection, key LIMIT 1)
UNION ALL
SELECT * FROM (SELECT 1 FROM documents ORDER BY collection DESC, key DESC LIMIT 1)
UNION ALL
SELECT * FROM (SELECT status FROM jobs ORDER BY id LIMIT 1)
UNION ALL
SELECT * FROM (SELECT status FROM jobs ORDER BY id DESC LIMIT 1);

-- name: read_version
-- Another number than before if any other connection, of this process or another, has committed.
PRAGMA data_version;

-- name: begin_write
-- Takes the write lock at once: a lock asked for later could be refused half-way.
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- name: roll_back
ROLLBACK;

-- name: create_migrations
CREATE TABLE IF NOT EXISTS rota_migrations (
    number        INTEGER NOT NULL PRIMARY KEY,
    name          TEXT NOT NULL,
    is_compatible INTEGER NOT NULL,
    checksum      TEXT NOT NULL
) STRICT;

-- name: read_migrations
SELECT number, name, is_compatible, checksum FROM rota_migrations ORDER BY number;

-- name: record_migration
-- ?1 number, ?2 name, ?3 whether it is compatible, ?4 checksum
INSERT INTO rota_migrations (number, name, is_compatible, checksum) VALUES (?1, ?2, ?3, ?4);

-- name: scan_page
-- ?1 collection, ?2 the last key of the page before (empty at first), ?3 how many
SELECT key, version, body FROM documents
WHERE collection = ?1 AND key > ?2
ORDER BY key
LIMIT ?3;

-- name: read_keys
-- ?1 collection, ?2 the keys as a JSON array. CROSS JOIN keeps the order of the loops: one look-up
-- per key, never a walk through the collection.
SELECT documents.key, documents.version, documents.body
FROM json_each(?2) AS wanted
CROSS JOIN documents ON documents.collection = ?1 AND documents.key = wanted.value;

-- name: insert
INSERT INTO documents (collection, key, version, body)
VALUES (?1, ?2, coalesce(?3, 0) + 1, ?4)
ON CONFLICT DO NOTHING;

-- name: update
UPDATE documents SET version = version + 1, body = ?4
WHERE collection = ?1 AND key = ?2 AND version = ?3;

-- name: remove
DELETE FROM documents
WHERE collection = ?1 AND key = ?2 AND version = ?3 AND ?4 IS NULL;

-- name: is_taken
-- For a write that only demands that there be no such document.
SELECT 1 FROM documents
WHERE collection = ?1 AND key = ?2 AND ?3 IS NULL AND ?4 IS NULL;

-- name: has_table
-- ?1 name
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1;

-- name: rescue_forwards
-- All documents of a damaged file from its first, until one cannot be read.
SELECT collection, key, version, body FROM documents ORDER BY collection, key;

-- name: rescue_backwards
-- The same from its last.
SELECT collection, key, version, body FROM documents ORDER BY collection DESC, key DESC;

-- name: restore
-- ?1 collection, ?2 key, ?3 version, ?4 body; one that was saved before is left as it is.
INSERT INTO documents (collection, key, version, body) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO NOTHING;
