-- Every statement of the SQLite store.
--
-- Instants are microseconds since 1970. Lists of ids are JSON arrays; CROSS JOIN keeps the order of
-- the loops, so that each id is looked up and no table is scanned.

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
-- Reads the whole file; only for small ones.
PRAGMA quick_check(1);

-- name: check_edges
-- Reads both edges of the trees of documents and jobs.
SELECT * FROM (SELECT 1 FROM documents ORDER BY collection, key LIMIT 1)
UNION ALL
SELECT * FROM (SELECT 1 FROM documents ORDER BY collection DESC, key DESC LIMIT 1)
UNION ALL
SELECT * FROM (SELECT status FROM jobs ORDER BY id LIMIT 1)
UNION ALL
SELECT * FROM (SELECT status FROM jobs ORDER BY id DESC LIMIT 1);

-- name: read_version
-- Changes after any commit of another connection, in this process or another.
PRAGMA data_version;

-- name: begin_write
-- Takes the write lock at once: a later request could be refused half-way.
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
INSERT INTO rota_migrations (number, name, is_compatible, checksum) VALUES (?1, ?2, ?3, ?4);

-- name: scan_documents
-- ?1 collection, ?2 the last key of the previous page (empty at first), ?3 limit
SELECT key, version, body FROM documents
WHERE collection = ?1 AND key > ?2
ORDER BY key
LIMIT ?3;

-- name: read_documents
-- ?1 collection, ?2 keys
SELECT documents.key, documents.version, documents.body
FROM json_each(?2) AS wanted
CROSS JOIN documents ON documents.collection = ?1 AND documents.key = wanted.value;

-- name: insert_document
-- This and the next three take a DocumentWrite: ?1 collection, ?2 key, ?3 expected version, ?4 body.
-- Some conditions are there only to use all four, so that a stream of writes needs no rearranging.
INSERT INTO documents (collection, key, version, body)
VALUES (?1, ?2, coalesce(?3, 0) + 1, ?4)
ON CONFLICT DO NOTHING;

-- name: update_document
UPDATE documents SET version = version + 1, body = ?4
WHERE collection = ?1 AND key = ?2 AND version = ?3;

-- name: remove_document
DELETE FROM documents
WHERE collection = ?1 AND key = ?2 AND version = ?3 AND ?4 IS NULL;

-- name: has_document
-- For a write that only demands that the document does not exist.
SELECT 1 FROM documents
WHERE collection = ?1 AND key = ?2 AND ?3 IS NULL AND ?4 IS NULL;

-- name: job_columns
-- What rows.decode_job reads, in its order.
    jobs.id, tenant, queue, kind, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, body

-- name: insert_job
-- All columns, in the order of the table. A job that exists by id or identity is left as it is.
INSERT INTO jobs VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28
)
ON CONFLICT DO NOTHING;

-- name: read_jobs
-- ?1 ids
SELECT
-- include: job_columns
    , is_awaited
FROM json_each(?1) AS wanted
CROSS JOIN jobs ON jobs.id = wanted.value;

-- name: lock_jobs
-- The transaction of the writer has the only write lock.
-- include: read_jobs
;

-- name: lock_statuses
-- ?1 ids
SELECT jobs.id, jobs.status
FROM json_each(?1) AS wanted
CROSS JOIN jobs ON jobs.id = wanted.value;

-- name: find_twin
-- ?1 tenant, ?2 kind, ?3 idempotency key, ?4 occurrence
SELECT
-- include: job_columns
FROM jobs
WHERE tenant = ?1 AND kind = ?2 AND idempotency_key = ?3
    AND coalesce('=' || occurrence, '') = coalesce('=' || ?4, '');

-- name: waiting_below
-- Begins with a table below (id) of parents.
SELECT waiting.id, tenant, queue, due_at, open_count, needed.parent, 'block'
FROM below
CROSS JOIN job_dependencies AS needed ON needed.parent = below.id
CROSS JOIN jobs AS waiting ON waiting.id = needed.child
WHERE NOT EXISTS (SELECT 1 FROM open_dependencies WHERE job_id = needed.child)
    AND waiting.status = 'PENDING'
UNION ALL
SELECT counted.job_id, tenant, queue, due_at, open_count, needed.parent, on_parent_failure
FROM below
CROSS JOIN job_dependencies AS needed ON needed.parent = below.id
CROSS JOIN open_dependencies AS counted ON counted.job_id = needed.child;

-- name: find_waiting
-- ?1 parents. The PENDING jobs that depend on them, once for each parent.
WITH below (id) AS (SELECT value FROM json_each(?1))
-- include: waiting_below

-- name: find_waiting_deep
-- ?1 parents. Also those that depend on them through other PENDING jobs.
WITH RECURSIVE below (id) AS (
    SELECT value FROM json_each(?1)
    UNION
    SELECT waiting.id
    FROM below
    CROSS JOIN job_dependencies AS needed ON needed.parent = below.id
    CROSS JOIN jobs AS waiting ON waiting.id = needed.child
    WHERE waiting.status = 'PENDING'
)
-- include: waiting_below

-- name: find_ancestors
-- ?1 ids. Child and parent of every dependency, from these jobs upwards.
WITH RECURSIVE above (id) AS (
    SELECT value FROM json_each(?1)
    UNION
    SELECT needed.parent
    FROM above
    CROSS JOIN job_dependencies AS needed ON needed.child = above.id
)
SELECT needed.child, needed.parent
FROM above
CROSS JOIN job_dependencies AS needed ON needed.child = above.id;

-- name: find_children
-- ?1 ids
SELECT needed.parent, needed.child
FROM json_each(?1) AS parents
CROSS JOIN job_dependencies AS needed ON needed.parent = parents.value;

-- name: find_parents
-- ?1 ids
SELECT needed.child, needed.parent
FROM json_each(?1) AS children
CROSS JOIN job_dependencies AS needed ON needed.child = children.value
ORDER BY children.key, needed.parent;

-- name: find_ended
-- ?1 the instant before which they ended, ?2 limit, ?3 and ?4 the place after which to begin. Only
-- jobs without dependents.
SELECT ended_at, id FROM jobs
WHERE ended_at IS NOT NULL AND ended_at < ?1 AND (ended_at, id) > (?3, ?4)
    AND NOT EXISTS (SELECT 1 FROM job_dependencies WHERE parent = jobs.id)
ORDER BY ended_at, id
LIMIT ?2;

-- name: move_job
-- ?1 id, ?2 to ?16 what a change writes
UPDATE jobs SET
    status = ?2, due_at = ?3, is_due = ?4, attempt_count = ?5, loss_count = ?6, last_error = ?7,
    ending = ?8, lease_token = ?9, lease_worker = ?10, lease_taken_at = ?11, lease_until = ?12,
    last_token = ?13, deferral = ?14, updated_at = ?15, ended_at = ?16
WHERE id = ?1;

-- name: amend_job
-- ?1 id, ?2 to ?11 what an amendment may change
UPDATE jobs SET
    queue = ?2, kind = ?3, priority = ?4, status = ?5, due_at = ?6, is_due = ?7, updated_at = ?8,
    ended_at = ?9, deferral = ?10, body = ?11
WHERE id = ?1;

-- name: place_job
-- ?1 id, ?2 READY or BLOCKED, ?3 now, ?4 and ?5 the ending and the error of a skipped job.
UPDATE jobs SET
    status = ?2, updated_at = ?3, is_due = iif(?2 = 'READY', due_at <= ?3, NULL),
    ended_at = iif(?2 = 'BLOCKED', ?3, NULL), ending = coalesce(?4, ending),
    last_error = coalesce(?5, last_error)
WHERE id = ?1;

-- name: count_open
-- ?1 id, ?2 open dependencies
UPDATE jobs SET open_count = ?2
WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM open_dependencies WHERE job_id = ?1);

-- name: lower_open
-- ?1 id, ?2 open dependencies. For the jobs that count_open leaves out.
UPDATE open_dependencies SET open_count = ?2 WHERE job_id = ?1;

-- name: keep_open
-- In the order of the table.
INSERT OR REPLACE INTO open_dependencies VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: amend_open
-- ?1 id, ?2 queue, ?3 when it is due
UPDATE open_dependencies SET queue = ?2, due_at = ?3 WHERE job_id = ?1;

-- name: forget_open
-- ?1 id. The job waits for nothing any more.
DELETE FROM open_dependencies WHERE job_id = ?1;

-- name: mark_awaited
-- ?1 id
UPDATE jobs SET is_awaited = 1 WHERE id = ?1 AND is_awaited = 0;

-- name: complete_job
-- ?1 when it was due, ?2 now, ?3 id, ?4 tenant, ?5 the expected token, ?6 when it started. The native
-- path of apply: a plain job without dependents succeeds. Under the same token, the rest is as it
-- was when leased. The worker stays: rows.py reads the completion from the columns of the lease.
UPDATE jobs SET
    status = 'COMPLETED', due_at = ?1, loss_count = 0, updated_at = ?2, ended_at = ?2,
    lease_token = NULL, lease_taken_at = ?6, lease_until = NULL
WHERE id = ?3 AND tenant = ?4 AND status = 'RUNNING' AND last_token = ?5 AND is_awaited = 0;

-- name: keep_result
-- ?1 job, ?2 body
INSERT OR REPLACE INTO job_results VALUES (?1, ?2);

-- name: read_results
-- ?1 tenant, ?2 ids
SELECT kept.job_id, kept.body
FROM json_each(?2) AS wanted
CROSS JOIN job_results AS kept ON kept.job_id = wanted.value
CROSS JOIN jobs ON jobs.id = kept.job_id
WHERE jobs.tenant = ?1;

-- name: add_dependency
-- ?1 parent, ?2 child
INSERT INTO job_dependencies (parent, child) VALUES (?1, ?2) ON CONFLICT DO NOTHING;

-- name: add_attempt
-- In the order of the table.
INSERT OR REPLACE INTO job_attempts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: add_report
-- ?1 job, ?2 token, ?3 traceback, ?4 log
INSERT OR REPLACE INTO attempt_reports VALUES (?1, ?2, ?3, ?4);

-- name: remove_dependencies
-- ?1 child
DELETE FROM job_dependencies WHERE child = ?1;

-- name: remove_attempts
-- ?1 job
DELETE FROM job_attempts WHERE job_id = ?1;

-- name: remove_reports
-- ?1 job
DELETE FROM attempt_reports WHERE job_id = ?1;

-- name: remove_result
-- ?1 job
DELETE FROM job_results WHERE job_id = ?1;

-- name: remove_job
-- ?1 id
DELETE FROM jobs WHERE id = ?1;

-- name: mark_due
-- ?1 now, ?2 limit. The longest due first; nearly always there are none.
UPDATE jobs SET is_due = 1
WHERE id IN (
    SELECT id FROM jobs WHERE is_due = 0 AND due_at <= ?1 ORDER BY due_at, id LIMIT ?2
);

-- name: next_partition
-- ?1 tenant, ?2 queue. The first partition from there on, and when its first job is due.
SELECT tenant, queue, due_at FROM jobs
WHERE is_due = 1 AND (tenant, queue) >= (?1, ?2)
ORDER BY tenant, queue, priority DESC, created_at, id
LIMIT 1;

-- name: find_due
-- ?1 tenant, ?2 queue, ?3 now, ?4 limit. The first jobs of a partition, as order_key has them.
SELECT -priority, created_at, id FROM jobs
WHERE is_due = 1 AND tenant = ?1 AND queue = ?2 AND due_at <= ?3
ORDER BY priority DESC, created_at, id
LIMIT ?4;

-- name: find_due_of_priority
-- The same for ?5 priority.
SELECT -priority, created_at, id FROM jobs
WHERE is_due = 1 AND tenant = ?1 AND queue = ?2 AND priority = ?5 AND due_at <= ?3
ORDER BY created_at, id
LIMIT ?4;

-- name: can_run
-- ?5 kinds, ?6 labels, or NULL for any. A label is in the body, which is read only if it may have one.
(?5 IS NULL OR kind IN (SELECT value FROM json_each(?5)))
AND (
    ?6 IS NULL OR instr(body, CAST('"label":"' AS BLOB)) = 0 OR coalesce(
        iif(json_valid(CAST(body AS TEXT)), json_extract(CAST(body AS TEXT), '$.label'), NULL)
            IN (SELECT value FROM json_each(?6)),
        1
    )
)

-- name: find_unfit
-- ?4 ids. One of these jobs that the caller cannot run.
SELECT jobs.id FROM json_each(?4) AS wanted
CROSS JOIN jobs ON jobs.id = wanted.value
WHERE NOT (
-- include: can_run
)
LIMIT 1;

-- name: find_accepted
-- As find_due, for jobs that the caller can run; ?7 how many jobs to look at.
SELECT -jobs.priority, jobs.created_at, jobs.id
FROM (
    SELECT priority, created_at, id FROM jobs
    WHERE is_due = 1 AND tenant = ?1 AND queue = ?2 AND due_at <= ?3
    ORDER BY priority DESC, created_at, id
    LIMIT ?7
) AS first
CROSS JOIN jobs ON jobs.id = first.id
WHERE
-- include: can_run
ORDER BY first.priority DESC, first.created_at, first.id
LIMIT ?4;

-- name: find_accepted_of_priority
-- As find_due_of_priority, for jobs that the caller can run; ?7 how many jobs to look at, ?8 priority.
SELECT -jobs.priority, jobs.created_at, jobs.id
FROM (
    SELECT created_at, id FROM jobs
    WHERE is_due = 1 AND tenant = ?1 AND queue = ?2 AND priority = ?8 AND due_at <= ?3
    ORDER BY created_at, id
    LIMIT ?7
) AS first
CROSS JOIN jobs ON jobs.id = first.id
WHERE
-- include: can_run
ORDER BY first.created_at, first.id
LIMIT ?4;

-- name: find_leased
-- The partition of every leased job: as many as workers hold.
SELECT tenant, queue FROM jobs WHERE lease_until IS NOT NULL;

-- name: lease_jobs
-- ?1 ids, ?2 now, ?3 worker, ?4 until. What rota.jobs.decide_lease decides; in any order.
UPDATE jobs SET
    status = 'RUNNING', is_due = NULL, updated_at = ?2, last_token = last_token + 1,
    lease_token = last_token + 1, lease_worker = ?3, lease_taken_at = ?2, lease_until = ?4
WHERE id IN (SELECT value FROM json_each(?1))
RETURNING
-- include: job_columns
;

-- name: set_aside
-- ?1 id, ?2 why. The job cannot be read: it is not leased again until it is repaired.
UPDATE jobs SET
    set_aside = ?2, status = 'READY', is_due = NULL,
    lease_token = NULL, lease_worker = NULL, lease_taken_at = NULL, lease_until = NULL
WHERE id = ?1;

-- name: extend_lease
-- ?1 id, ?2 token, ?3 until
UPDATE jobs SET lease_until = max(lease_until, ?3) WHERE id = ?1 AND lease_token = ?2;

-- name: find_dependents
-- ?1 parents, ?2 their tenant, ?3 limit
SELECT
-- include: job_columns
FROM (
    SELECT DISTINCT needed.child
    FROM json_each(?1) AS parents
    CROSS JOIN job_dependencies AS needed ON needed.parent = parents.value
) AS children
CROSS JOIN jobs ON jobs.id = children.child
WHERE tenant = ?2
ORDER BY jobs.id
LIMIT ?3;

-- name: find_expired
-- ?1 now, ?2 and ?3 expiry and id of the last job of the previous page, ?4 limit
SELECT
-- include: job_columns
FROM jobs
WHERE lease_until IS NOT NULL AND lease_until < ?1 AND (lease_until, id) > (?2, ?3)
ORDER BY lease_until, id
LIMIT ?4;

-- name: first_later
-- ?1 tenants, or NULL for all. Skips the jobs of others in the index; the plus keeps SQLite from
-- reading all jobs of these tenants instead.
SELECT due_at FROM jobs
WHERE is_due = 0 AND (?1 IS NULL OR +tenant IN (SELECT value FROM json_each(?1)))
ORDER BY due_at
LIMIT 1;

-- name: first_later_of_queue
-- ?1 tenants, or NULL for all, ?2 queue
SELECT due_at FROM jobs
WHERE is_due = 0 AND queue = ?2 AND (?1 IS NULL OR +tenant IN (SELECT value FROM json_each(?1)))
ORDER BY due_at
LIMIT 1;

-- name: first_in_partition
-- ?1 tenant, ?2 queue, ?3 now. Only where the first job is not due: mostly one behind it is, and then the
-- others are not looked at.
SELECT coalesce(
    (SELECT due_at FROM jobs WHERE is_due = 1 AND tenant = ?1 AND queue = ?2 AND due_at <= ?3 LIMIT 1),
    (SELECT min(due_at) FROM jobs WHERE is_due = 1 AND tenant = ?1 AND queue = ?2)
);

-- name: listed
-- :jobs is one of the lists below. ?1 tenant, ?2 queue, ?3 status, ?4 and ?5 lowest and highest priority,
-- ?6 and ?7 the first and the last instant of creation, ?8 whether they recur. NULL for queue, status
-- and ?8: any.
    :jobs
    AND tenant = ?1 AND created_at BETWEEN ?6 AND ?7 AND priority BETWEEN ?4 AND ?5
    AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR status = ?3)
    AND (?8 IS NULL OR coalesce(is_recurring, 0) = ?8)

-- name: find_listed
-- ?9 and ?10 the last job of the previous page, ?11 limit. A page begins where the previous one ended:
-- ?7 is not after ?9.
SELECT
-- include: job_columns
-- include: listed
    AND (created_at < ?9 OR jobs.id > ?10)
ORDER BY created_at DESC, jobs.id
LIMIT ?11;

-- name: count_listed
-- ?9 the most to count
SELECT count(*) FROM (
    SELECT 1
-- include: listed
    LIMIT ?9
);

-- name: list_any
FROM jobs WHERE true

-- name: list_unsuccessful
-- For the status PENDING, FAILED or BLOCKED.
FROM jobs INDEXED BY jobs_held_up
WHERE (status = 'PENDING' OR status = 'FAILED' OR status = 'BLOCKED') AND status = ?3

-- name: list_dead
FROM jobs INDEXED BY jobs_dead
WHERE status = 'FAILED' AND (ending = 'exhausted' OR ending = 'lost')

-- name: list_recurring
-- For jobs that recur, of one status.
FROM jobs INDEXED BY jobs_recurring WHERE status = ?3 AND is_recurring = 1

-- name: list_running
-- For the status RUNNING. Reads all leased jobs: they are few.
FROM jobs INDEXED BY jobs_leased WHERE lease_until IS NOT NULL

-- name: list_few_ready
-- For the status READY if few jobs are: reads all of them. CROSS JOIN keeps SQLite from reading all
-- jobs in the order of the list instead.
FROM (
    SELECT id FROM jobs INDEXED BY jobs_in_line WHERE is_due = 1 AND tenant = ?1
    UNION ALL
    SELECT id FROM jobs INDEXED BY jobs_later WHERE is_due = 0 AND tenant = ?1
) AS ready
CROSS JOIN jobs ON jobs.id = ready.id
WHERE true

-- name: count_ready
-- ?1 tenant, ?2 the number that counts as many
SELECT count(*) FROM (
    SELECT * FROM (
        SELECT 1 FROM jobs INDEXED BY jobs_in_line WHERE is_due = 1 AND tenant = ?1 LIMIT ?2
    )
    UNION ALL
    SELECT * FROM (
        SELECT 1 FROM jobs INDEXED BY jobs_later WHERE is_due = 0 AND tenant = ?1 LIMIT ?2
    )
);

-- name: count_all
-- As count_listed, where only the tenant decides: the index is enough.
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE tenant = ?1 LIMIT ?9);

-- name: attempt_columns
-- What rows.decode_attempt reads, in its order.
SELECT attempts.*, reports.traceback, reports.log
FROM job_attempts AS attempts
LEFT JOIN attempt_reports AS reports
    ON reports.job_id = attempts.job_id AND reports.token = attempts.token

-- name: read_attempts
-- ?1 tenant, ?2 job
-- include: attempt_columns
WHERE attempts.job_id = ?2 AND EXISTS (SELECT 1 FROM jobs WHERE id = ?2 AND tenant = ?1)
ORDER BY attempts.token;

-- name: survey
-- ?1 now, ?2 the tenant, or NULL for all. For each queue the fields of a QueueDepth. Each part reads
-- one index, and no COMPLETED job is in any of them; without the hint SQLite reads the whole table.
SELECT queue, sum(due), sum(later), sum(running), sum(stalled), sum(dead), min(oldest)
FROM (
    SELECT
        queue,
        count(*) FILTER (WHERE due_at <= ?1) AS due,
        count(*) FILTER (WHERE due_at > ?1) AS later,
        0 AS running,
        0 AS stalled,
        0 AS dead,
        min(due_at) FILTER (WHERE due_at <= ?1) AS oldest
    FROM jobs INDEXED BY jobs_in_line
    WHERE is_due = 1 AND (?2 IS NULL OR tenant = ?2)
    GROUP BY queue
    UNION ALL
    SELECT
        queue, count(*) FILTER (WHERE due_at <= ?1), count(*) FILTER (WHERE due_at > ?1), 0, 0, 0,
        min(due_at) FILTER (WHERE due_at <= ?1)
    FROM jobs INDEXED BY jobs_later_by_queue
    WHERE is_due = 0 AND (?2 IS NULL OR tenant = ?2)
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, count(*), count(*) FILTER (WHERE lease_until < ?1), 0, NULL
    FROM jobs INDEXED BY jobs_leased
    WHERE lease_until IS NOT NULL AND (?2 IS NULL OR tenant = ?2)
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, 0, 0, count(*), NULL
    FROM jobs INDEXED BY jobs_dead
    WHERE status = 'FAILED' AND (ending = 'exhausted' OR ending = 'lost')
        AND (?2 IS NULL OR tenant = ?2)
    GROUP BY queue
)
GROUP BY queue
ORDER BY queue;

-- name: dump_documents
-- ?1 and ?2 collection and key of the last one before, ?3 limit
SELECT collection, key, version, body FROM documents
WHERE (collection, key) > (?1, ?2)
ORDER BY collection, key
LIMIT ?3;

-- name: dump_jobs
-- ?1 the last one before, ?2 limit
SELECT
-- include: job_columns
    , set_aside
FROM jobs
WHERE id > ?1
ORDER BY id
LIMIT ?2;

-- name: dump_attempts
-- ?1 and ?2 the first and the last job
-- include: attempt_columns
WHERE attempts.job_id BETWEEN ?1 AND ?2
ORDER BY attempts.job_id, attempts.token;

-- name: dump_results
-- ?1 and ?2 the first and the last job
SELECT job_id, body FROM job_results WHERE job_id BETWEEN ?1 AND ?2;

-- name: load_document
-- ?1 collection, ?2 key, ?3 version, ?4 body. An existing one is left as it is.
INSERT INTO documents VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING;

-- name: read_tables
SELECT name FROM sqlite_schema WHERE type = 'table';

-- name: count_documents
SELECT collection, count(*) FROM documents GROUP BY collection ORDER BY collection;

-- name: count_jobs
SELECT status, count(*), count(set_aside) FROM jobs GROUP BY status;

-- name: rescue_rows
-- Reads all rows of a damaged table, from the first or from the last: :key is its primary key.
SELECT * FROM :table ORDER BY :key;
