-- What is asked of a SQLite file by whoever looks after it.

-- name: forbid_writing
PRAGMA query_only = ON;

-- name: list_tables
SELECT name FROM sqlite_schema WHERE type = 'table';

-- name: count_documents
SELECT collection, count(*) FROM documents GROUP BY collection ORDER BY collection;

-- name: count_jobs
SELECT status, count(*), count(set_aside) FROM jobs GROUP BY status;
