-- Every statement of the store on MariaDB and MySQL.
--
-- Parameters are written %(name)s, lists as IN (%(ids)s); :rows are rows as VALUES takes them. The driver
-- puts the values into the text, so the server plans each statement with them, and a condition such as
-- (NULL IS NULL OR ...) costs nothing; COALESCE does the same for a list. FORCE INDEX: statistics are
-- often those of an empty table. CONVERT: a text in a LONGBLOB comes as text.

-- name: configure_session
-- READ COMMITTED locks rows, not the gaps between them. A peer that is gone loses its transaction.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET SESSION
    sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO',
    time_zone = '+00:00', innodb_lock_wait_timeout = 3, wait_timeout = 60;

-- name: transaction
-- How it begins, ends, and is undone.
START TRANSACTION READ WRITE; COMMIT; ROLLBACK;

-- name: savepoint
SAVEPOINT rota_jobs; RELEASE SAVEPOINT rota_jobs; ROLLBACK TO SAVEPOINT rota_jobs;

-- name: read_clock
SELECT UTC_TIMESTAMP(6);

-- name: read_server
SELECT
    VERSION(), @@max_allowed_packet,
    (
        SELECT COUNT(*) FROM information_schema.tables
        WHERE table_schema = DATABASE() AND table_name = 'rota_migrations'
    ),
    (
        SELECT CAST(COALESCE(SUM(data_length + index_length), 0) AS UNSIGNED)
        FROM information_schema.tables
        WHERE table_schema = DATABASE() AND table_name LIKE 'rota\_%%'
    );

-- name: lock_schema
-- One program migrates at a time. Answers 1, or 0 if it had to wait for that many seconds.
SELECT GET_LOCK(CONCAT('rota:', LEFT(SHA1(DATABASE()), 40)), %(seconds)s);

-- name: unlock_schema
SELECT RELEASE_LOCK(CONCAT('rota:', LEFT(SHA1(DATABASE()), 40)));

-- name: create_migrations
CREATE TABLE IF NOT EXISTS rota_migrations (
    number        INT NOT NULL PRIMARY KEY,
    name          VARBINARY(255) NOT NULL,
    is_compatible TINYINT NOT NULL,
    checksum      VARBINARY(64) NOT NULL
) ENGINE = InnoDB;

-- name: read_migrations
SELECT number, name, is_compatible, checksum FROM rota_migrations ORDER BY number;

-- name: record_migration
INSERT INTO rota_migrations (number, name, is_compatible, checksum) VALUES :rows;

-- name: count_documents
SELECT collection, COUNT(*) FROM rota_documents GROUP BY collection;

-- name: count_jobs
SELECT status, COUNT(*), COUNT(set_aside) FROM rota_jobs GROUP BY status;

-- name: scan_documents
SELECT name, version, body FROM rota_documents
WHERE collection = %(collection)s AND name > %(after)s
ORDER BY name
LIMIT %(limit)s;

-- name: read_documents
SELECT name, version, body FROM rota_documents
WHERE collection = %(collection)s AND name IN (%(keys)s);

-- name: lock_documents
SELECT name, version FROM rota_documents
WHERE collection = %(collection)s AND name IN (%(keys)s)
ORDER BY name
FOR UPDATE;

-- name: create_documents
-- Those that exist stay as they are, and are locked too.
INSERT INTO rota_documents (collection, name, version, body) VALUES :rows
ON DUPLICATE KEY UPDATE version = version;

-- name: change_documents
INSERT INTO rota_documents (collection, name, version, body) VALUES :rows
ON DUPLICATE KEY UPDATE version = VALUES(version), body = VALUES(body);

-- name: remove_documents
DELETE FROM rota_documents WHERE collection = %(collection)s AND name IN (%(keys)s);

-- name: job_columns
-- What rota.stores.rows.decode_job reads, in its order.
    id, tenant, queue, kind, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, CONVERT(last_error USING utf8mb4), ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, body

-- name: insert_job
-- In the order of unit.encode. Fails if a job exists by id or identity.
INSERT INTO rota_jobs (
    id, tenant, queue, kind, priority, status, due_at, is_due, created_at, updated_at, ended_at,
    attempt_count, loss_count, last_error, ending, lease_token, lease_worker, lease_taken_at,
    lease_until, last_token, deferral, idempotency_key, occurrence, is_recurring, is_awaited,
    open_count, set_aside, body, identity, on_parent_failure, label
) VALUES :rows

-- name: move_job
-- For jobs that exist and are locked: all that a change or an amendment may write.
-- include: insert_job
ON DUPLICATE KEY UPDATE
    queue = VALUES(queue), kind = VALUES(kind), priority = VALUES(priority),
    status = VALUES(status), due_at = VALUES(due_at), is_due = VALUES(is_due),
    updated_at = VALUES(updated_at), ended_at = VALUES(ended_at),
    attempt_count = VALUES(attempt_count), loss_count = VALUES(loss_count),
    last_error = VALUES(last_error), ending = VALUES(ending), lease_token = VALUES(lease_token),
    lease_worker = VALUES(lease_worker), lease_taken_at = VALUES(lease_taken_at),
    lease_until = VALUES(lease_until), last_token = VALUES(last_token),
    deferral = VALUES(deferral), identity = VALUES(identity), label = VALUES(label),
    body = VALUES(body)

-- name: amend_job
-- include: move_job

-- name: read_jobs
SELECT
-- include: job_columns
    , is_awaited
FROM rota_jobs FORCE INDEX (PRIMARY) WHERE id IN (%(ids)s) ORDER BY id

-- name: lock_jobs
-- include: read_jobs
FOR UPDATE;

-- name: lock_twins
SELECT
-- include: job_columns
FROM rota_jobs FORCE INDEX (jobs_identity) WHERE identity IN (%(identities)s) FOR UPDATE;

-- name: lock_statuses
SELECT id, status FROM rota_jobs FORCE INDEX (PRIMARY) WHERE id IN (%(ids)s) ORDER BY id FOR UPDATE;

-- name: lock_waiting
SELECT id, tenant, queue, due_at, open_count, on_parent_failure
FROM rota_jobs FORCE INDEX (PRIMARY)
WHERE id IN (%(ids)s) AND status = 'PENDING'
ORDER BY id
FOR UPDATE;

-- name: lock_row
-- Until the transaction ends, no other one gets past this statement with the same name.
SELECT name FROM rota_locks WHERE name = %(name)s FOR UPDATE;

-- name: find_children
SELECT parent, child FROM rota_dependencies FORCE INDEX (PRIMARY) WHERE parent IN (%(ids)s);

-- name: find_parents
SELECT child, parent FROM rota_dependencies FORCE INDEX (dependencies_by_child)
WHERE child IN (%(ids)s)
ORDER BY child, parent;

-- name: find_ended
SELECT ended_at, id FROM rota_jobs FORCE INDEX (jobs_ended)
WHERE ended_at < %(before)s
    AND (ended_at > %(after)s OR (ended_at = %(after)s AND id > %(after_id)s))
    AND NOT EXISTS (SELECT 1 FROM rota_dependencies WHERE parent = rota_jobs.id)
ORDER BY ended_at, id
LIMIT %(limit)s;

-- name: add_dependency
INSERT IGNORE INTO rota_dependencies (parent, child) VALUES :rows;

-- name: add_attempt
REPLACE INTO rota_attempts (
    job_id, token, number, worker, started_at, ended_at, outcome, error, traceback, log
) VALUES :rows;

-- name: keep_result
REPLACE INTO rota_results (job_id, body) VALUES :rows;

-- name: mark_awaited
UPDATE rota_jobs FORCE INDEX (PRIMARY) SET is_awaited = 1 WHERE id IN (%(ids)s);

-- name: count_open
UPDATE rota_jobs FORCE INDEX (PRIMARY) SET open_count = %(open_count)s WHERE id IN (%(ids)s);

-- name: place_job
-- PENDING jobs become READY or BLOCKED; a skipped one has an ending and an error.
UPDATE rota_jobs FORCE INDEX (PRIMARY) SET
    status = %(status)s, updated_at = %(now)s,
    is_due = IF(%(status)s = 'READY', due_at <= %(now)s, NULL),
    ended_at = IF(%(status)s = 'BLOCKED', %(now)s, NULL),
    ending = COALESCE(%(ending)s, ending), last_error = COALESCE(%(error)s, last_error)
WHERE id IN (%(ids)s);

-- name: set_aside
UPDATE rota_jobs FORCE INDEX (PRIMARY) SET
    set_aside = %(reason)s, status = 'READY', is_due = NULL,
    lease_token = NULL, lease_worker = NULL, lease_taken_at = NULL, lease_until = NULL
WHERE id = %(job_id)s;

-- name: remove_dependencies
DELETE FROM rota_dependencies WHERE child IN (%(ids)s);

-- name: remove_attempts
DELETE FROM rota_attempts WHERE job_id IN (%(ids)s);

-- name: remove_result
DELETE FROM rota_results WHERE job_id IN (%(ids)s);

-- name: remove_job
DELETE rota_jobs FROM rota_jobs FORCE INDEX (PRIMARY) WHERE id IN (%(ids)s);

-- name: lock_plain
-- Of these jobs, those that may end without a look at others.
SELECT id, tenant, last_token FROM rota_jobs FORCE INDEX (PRIMARY)
WHERE id IN (%(ids)s) AND status = 'RUNNING' AND is_awaited = 0
ORDER BY id
FOR UPDATE;

-- name: complete_jobs
-- The native path of apply, for locked jobs; %(rows)s is JSON. The worker stays: rows.py reads the
-- completion from the columns of the lease.
UPDATE JSON_TABLE(%(rows)s, '$[*]' COLUMNS (
    job_id VARCHAR(36) PATH '$[0]', due_at BIGINT PATH '$[1]', started_at BIGINT PATH '$[2]',
    ended_at BIGINT PATH '$[3]'
)) AS wanted
STRAIGHT_JOIN rota_jobs AS job ON job.id = wanted.job_id
SET
    job.status = 'COMPLETED', job.due_at = wanted.due_at, job.loss_count = 0,
    job.updated_at = wanted.ended_at, job.ended_at = wanted.ended_at, job.lease_token = NULL,
    job.lease_taken_at = wanted.started_at, job.lease_until = NULL;

-- name: find_late
-- The jobs that have become due, the longest due first. Others may be marking them.
SELECT id FROM rota_jobs FORCE INDEX (jobs_later)
WHERE later_at <= %(now)s
ORDER BY later_at, id
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED;

-- name: mark_due
UPDATE rota_jobs FORCE INDEX (PRIMARY) SET is_due = 1 WHERE id IN (%(ids)s);

-- name: next_partition
-- The first partition from a tenant and queue on, and when its first job is due.
SELECT tenant, queue, due_at FROM rota_jobs FORCE INDEX (jobs_due)
WHERE is_due = 1 AND (tenant > %(tenant)s OR (tenant = %(tenant)s AND queue >= %(queue)s))
ORDER BY is_due, tenant, queue, priority DESC, created_at, id
LIMIT 1;

-- name: first_in_partition
-- Only where the first job is not due: mostly one behind it is, and then the others are not looked at.
SELECT COALESCE(
    (
        SELECT due_at FROM rota_jobs FORCE INDEX (jobs_due)
        WHERE is_due = 1 AND tenant = %(tenant)s AND queue = %(queue)s AND due_at <= %(now)s
        LIMIT 1
    ),
    (
        SELECT MIN(due_at) FROM rota_jobs FORCE INDEX (jobs_due)
        WHERE is_due = 1 AND tenant = %(tenant)s AND queue = %(queue)s
    )
);

-- name: due_jobs
-- The first due jobs of a partition, or of one priority in it, as order_key has them.
FROM rota_jobs FORCE INDEX (jobs_due)
WHERE is_due = 1 AND tenant = %(tenant)s AND queue = %(queue)s AND due_at <= %(now)s
    AND (%(priority)s IS NULL OR priority = %(priority)s)

-- name: in_order
-- Only the columns after those that are given: with the others MariaDB sorts, and locks every job.
ORDER BY priority DESC, created_at, id
LIMIT %(limit)s

-- name: take_first
-- Locks jobs that no one else has locked. Lists of this statement are joined by UNION ALL.
SELECT
-- include: job_columns
-- include: due_jobs
-- include: in_order
FOR UPDATE SKIP LOCKED;

-- name: find_first
-- Looks at %(seen)s jobs for those that the caller can run. Joined by UNION ALL.
SELECT id, tenant, queue, priority, created_at FROM (
    SELECT id, tenant, queue, kind, label, priority, created_at
-- include: due_jobs
    ORDER BY priority DESC, created_at, id
    LIMIT %(seen)s
) AS first
WHERE (COALESCE(%(kinds)s) IS NULL OR kind IN (%(kinds)s))
    AND (COALESCE(%(labels)s) IS NULL OR label IS NULL OR label IN (%(labels)s)) AND id NOT IN (%(passed_over)s)
ORDER BY priority DESC, created_at, id
LIMIT %(limit)s

-- name: take_chosen
SELECT
-- include: job_columns
FROM rota_jobs FORCE INDEX (PRIMARY) WHERE id IN (%(ids)s) AND is_due = 1
ORDER BY id
FOR UPDATE SKIP LOCKED;

-- name: lease_jobs
-- What rota.jobs.decide_lease decides, for locked jobs. Assignments happen from left to right.
UPDATE rota_jobs FORCE INDEX (PRIMARY) SET
    status = 'RUNNING', is_due = NULL, updated_at = %(now)s, last_token = last_token + 1,
    lease_token = last_token, lease_worker = %(worker)s, lease_taken_at = %(now)s,
    lease_until = %(until)s
WHERE id IN (%(ids)s);

-- name: count_running
SELECT tenant, queue, COUNT(*) FROM rota_jobs FORCE INDEX (jobs_leased)
WHERE lease_until IS NOT NULL
GROUP BY tenant, queue;

-- name: extend_leases
-- %(held)s are pairs of id and token.
UPDATE rota_jobs FORCE INDEX (PRIMARY) SET lease_until = GREATEST(lease_until, %(until)s)
WHERE id IN (%(ids)s) AND (id, lease_token) IN (%(held)s);

-- name: read_tokens
SELECT id, lease_token FROM rota_jobs WHERE id IN (%(ids)s) AND lease_token IS NOT NULL;

-- name: find_expired
SELECT
-- include: job_columns
FROM rota_jobs FORCE INDEX (jobs_leased)
WHERE lease_until < %(now)s
    AND (lease_until > %(after)s OR (lease_until = %(after)s AND id > %(after_id)s))
ORDER BY lease_until, id
LIMIT %(limit)s;

-- name: first_later
-- Jobs of other tenants are passed over in the index.
SELECT later_at FROM rota_jobs FORCE INDEX (jobs_later)
WHERE later_at IS NOT NULL AND (COALESCE(%(tenants)s) IS NULL OR tenant IN (%(tenants)s))
ORDER BY later_at
LIMIT 1;

-- name: first_later_of_queue
SELECT later_at FROM rota_jobs FORCE INDEX (jobs_later_by_queue)
WHERE queue = %(queue)s AND later_at IS NOT NULL AND (COALESCE(%(tenants)s) IS NULL OR tenant IN (%(tenants)s))
ORDER BY later_at
LIMIT 1;

-- name: read_results
SELECT kept.job_id, kept.body FROM rota_results AS kept
STRAIGHT_JOIN rota_jobs AS job ON job.id = kept.job_id
WHERE kept.job_id IN (%(ids)s) AND job.tenant = %(tenant)s;

-- name: find_dependents
SELECT
-- include: job_columns
FROM rota_jobs
WHERE tenant = %(tenant)s
    AND id IN (SELECT child FROM rota_dependencies WHERE parent IN (%(ids)s))
ORDER BY id
LIMIT %(limit)s;

-- name: listed
-- What a list asks of a job; NULL for any. :jobs is one of the lists below.
    :jobs
    AND tenant = %(tenant)s AND created_at BETWEEN %(first)s AND %(last)s
    AND priority BETWEEN %(lowest)s AND %(highest)s
    AND (%(queue)s IS NULL OR queue = %(queue)s) AND (%(status)s IS NULL OR status = %(status)s)
    AND (%(is_recurring)s IS NULL OR COALESCE(is_recurring, 0) = %(is_recurring)s)

-- name: find_listed
SELECT
-- include: job_columns
-- include: listed
    AND (created_at < %(after)s OR id > %(after_id)s)
ORDER BY created_at DESC, id
LIMIT %(limit)s;

-- name: count_listed
SELECT COUNT(*) FROM (
    SELECT 1
-- include: listed
    LIMIT %(limit)s
) AS counted;

-- name: list_any
FROM rota_jobs FORCE INDEX (jobs_listed) WHERE set_aside IS NULL

-- name: list_of_status
FROM rota_jobs FORCE INDEX (jobs_by_status) WHERE set_aside IS NULL

-- name: list_recurring
-- For jobs that recur, of one status.
FROM rota_jobs FORCE INDEX (jobs_recurring) WHERE series_status = %(status)s AND set_aside IS NULL

-- name: list_dead
FROM rota_jobs FORCE INDEX (jobs_dead) WHERE is_dead = 1 AND set_aside IS NULL

-- name: attempt_columns
-- What rota.stores.rows.decode_attempt reads, in its order.
    job_id, token, number, worker, started_at, ended_at, outcome, CONVERT(error USING utf8mb4),
    CONVERT(traceback USING utf8mb4), CONVERT(log USING utf8mb4)

-- name: read_attempts
SELECT
-- include: attempt_columns
FROM rota_attempts
WHERE job_id = %(job_id)s
    AND EXISTS (SELECT 1 FROM rota_jobs WHERE id = %(job_id)s AND tenant = %(tenant)s)
ORDER BY token;

-- name: survey
-- The fields of a QueueDepth for each queue. No COMPLETED job is in any of these indexes.
SELECT queue, SUM(due), SUM(later), SUM(running), SUM(stalled), SUM(dead), MIN(oldest)
FROM (
    SELECT
        queue, SUM(due_at <= %(now)s) AS due, SUM(due_at > %(now)s) AS later, 0 AS running,
        0 AS stalled, 0 AS dead, MIN(IF(due_at <= %(now)s, due_at, NULL)) AS oldest
    FROM rota_jobs FORCE INDEX (jobs_due)
    WHERE is_due IN (0, 1) AND (%(tenant)s IS NULL OR tenant = %(tenant)s)
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, COUNT(*), SUM(lease_until < %(now)s), 0, NULL
    FROM rota_jobs FORCE INDEX (jobs_leased)
    WHERE lease_until IS NOT NULL AND (%(tenant)s IS NULL OR tenant = %(tenant)s)
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, 0, 0, COUNT(*), NULL
    FROM rota_jobs FORCE INDEX (jobs_dead)
    WHERE is_dead = 1 AND (%(tenant)s IS NULL OR tenant = %(tenant)s)
    GROUP BY queue
) AS part
GROUP BY queue
ORDER BY queue;

-- name: dump_documents
-- As many as make up 4 MiB, at least one. Only those are read whole: bodies in a table that the server
-- makes for itself take ten times as long.
SELECT collection, name, version, body
FROM (
    SELECT collection, name, SUM(size) OVER (ORDER BY collection, name) - size AS bytes_before
    FROM (
        SELECT collection, name, LENGTH(body) AS size FROM rota_documents
        WHERE collection > %(collection)s OR (collection = %(collection)s AND name > %(after)s)
        ORDER BY collection, name
        LIMIT %(limit)s
    ) AS following
) AS sized
JOIN rota_documents USING (collection, name)
WHERE bytes_before < 4194304
ORDER BY collection, name;

-- name: dump_jobs
-- As many as make up 4 MiB, at least one. Only those are read whole: bodies in a table that the server
-- makes for itself take ten times as long.
SELECT
-- include: job_columns
    , CONVERT(set_aside USING utf8mb4)
FROM (
    SELECT id, SUM(size) OVER (ORDER BY id) - size AS bytes_before
    FROM (
        SELECT id, LENGTH(body) AS size FROM rota_jobs FORCE INDEX (PRIMARY)
        WHERE id > %(after)s
        ORDER BY id
        LIMIT %(limit)s
    ) AS following
) AS sized
JOIN rota_jobs USING (id)
WHERE bytes_before < 4194304
ORDER BY id;

-- name: dump_attempts
SELECT
-- include: attempt_columns
FROM rota_attempts WHERE job_id BETWEEN %(first)s AND %(last)s ORDER BY job_id, token;

-- name: dump_results
SELECT job_id, body FROM rota_results WHERE job_id BETWEEN %(first)s AND %(last)s;

-- name: read_wakeups
SELECT id, sender, places FROM rota_wakeups WHERE id > %(after)s;

-- name: add_wakeup
INSERT INTO rota_wakeups (sender, places) VALUES :rows;

-- name: trim_wakeups
DELETE FROM rota_wakeups WHERE id < %(before)s;

-- name: find_unended
SELECT id FROM rota_jobs
WHERE id IN (%(ids)s) AND status NOT IN ('COMPLETED', 'FAILED', 'BLOCKED');
