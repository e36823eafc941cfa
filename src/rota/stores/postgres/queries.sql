-- Every statement of the PostgreSQL store.
--
-- The schema is written as rota; a store with another schema replaces the name. Lists are arrays.
-- Their rows are looked up one by one through an index, in the order of the ids: programs that lock
-- rows in one order do not wait for each other in a circle.
--
-- The server plans a statement once, often while the table is empty, and keeps the plan. So each
-- statement leaves the planner no choice: a column that must not select the index is compared by
-- IS NOT DISTINCT FROM, which no index supports; OFFSET 0 prevents reordering; and partitions are read
-- in the order of all columns of their index, which with sorting turned off no other index can give.

-- name: begin
-- Each statement must see what others committed before it, whatever the database's default is.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;

-- name: commit
COMMIT;

-- name: roll_back
ROLLBACK;

-- name: set_savepoint
SAVEPOINT rota_jobs;

-- name: release_savepoint
RELEASE SAVEPOINT rota_jobs;

-- name: roll_back_to_savepoint
ROLLBACK TO SAVEPOINT rota_jobs;

-- name: ping
SELECT 1;

-- name: read_process_id
-- Of the server's process for this connection.
SELECT pg_backend_pid() AS process_id;

-- name: find_prepared
-- $1 name of a prepared statement
SELECT name FROM pg_prepared_statements WHERE name = $1::text;

-- name: find_differing_settings
-- $1 names, $2 values
SELECT wanted.name
FROM unnest($1::text[], $2::text[]) AS wanted (name, value)
WHERE current_setting(wanted.name) <> wanted.value;

-- name: find_unended
-- $1 ids
SELECT id::text AS id FROM rota.jobs
WHERE id = ANY ($1::uuid[]) AND status NOT IN ('COMPLETED', 'FAILED', 'BLOCKED');

-- name: read_clock
SELECT clock_timestamp() AS now;

-- name: notify
-- A commit that only notifies need not wait for the disk.
-- $1 channel, $2 message
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text);

-- name: notify_at_commit
-- $1 channel, $2 message
SELECT pg_notify($1::text, $2::text);

-- name: read_context
-- The encoding of the database, and whether the schema and its list of migrations exist.
SELECT
    current_setting('server_encoding') AS encoding,
    to_regnamespace('rota') IS NOT NULL AS has_schema,
    to_regclass('rota.migrations') IS NOT NULL AS has_migrations;

-- name: wait_for_locks
-- Sets how long a migration waits for locks, and no limit for its own work; until the transaction ends.
-- $1 milliseconds, as text
SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', '0', true);

-- name: lock_schema
-- One program migrates at a time.
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

-- name: read_server
-- The server, whether the schema and its list of migrations exist, and the size of its tables with
-- their indexes.
SELECT
    current_setting('server_version') AS version,
    to_regnamespace('rota') IS NOT NULL AS has_schema,
    to_regclass('rota.migrations') IS NOT NULL AS has_migrations,
    (
        SELECT coalesce(sum(pg_total_relation_size(relation.oid)), 0)::bigint
        FROM pg_class AS relation
        WHERE relation.relnamespace = to_regnamespace('rota')
            AND relation.relkind IN ('r', 'm')
    ) AS size;

-- name: count_documents
SELECT collection, count(*) AS number FROM rota.documents GROUP BY collection ORDER BY collection;

-- name: count_jobs
SELECT status, count(*) AS number, count(set_aside) AS aside FROM rota.jobs GROUP BY status;

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
-- Creates, changes and removes documents where the write is current. No two writes name the same
-- document, and each kind comes in the order of names.
-- $1 collections, $2 keys and $3 bodies to create; $4 collections, $5 keys, $6 expected versions and
-- $7 bodies to change; $8 collections, $9 keys and $10 expected versions to remove. The answer is one
-- row. A column is NULL where all writes of its kind were current; otherwise it lists those that were:
-- created documents by name, the others by position from 1.
WITH created AS (
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
        (SELECT count(*) FROM created) < cardinality($1) AS misses_created,
        (SELECT count(*) FROM changed) < cardinality($4) AS misses_changed,
        (SELECT count(*) FROM removed) < cardinality($8) AS misses_removed
)
SELECT
    CASE WHEN misses_created THEN ARRAY(SELECT collection FROM created) END AS collections,
    CASE WHEN misses_created THEN ARRAY(SELECT key FROM created) END AS keys,
    CASE WHEN misses_changed THEN ARRAY(SELECT position FROM changed) END AS changed,
    CASE WHEN misses_removed THEN ARRAY(SELECT position FROM removed) END AS removed
FROM counted;

-- name: job_columns
-- The columns of a job in the order of rows.py.
    id::text AS job_id, tenant, queue, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, last_error, ending, deferral,
    lease_worker, lease_taken_at, lease_until, body, is_awaited, is_watched

-- name: job_rows
SELECT
-- include: job_columns
FROM rota.jobs

-- name: read_jobs
-- begins as: job_rows
-- $1 ids
WHERE id = ANY ($1::uuid[])
ORDER BY id;

-- name: lock_jobs
-- begins as: read_jobs
-- Until the transaction ends, no other one changes these jobs or adds a dependent.
FOR NO KEY UPDATE;

-- name: find_twins
-- begins as: job_rows
-- In any order: no index has both.
-- $1 identities
WHERE identity = ANY ($1::uuid[]);

-- name: insert_jobs
-- Jobs that have only just been made, without keys, and that do not recur. Fails if one exists already.
-- So they are one statement: 22 ms for 500 jobs, against 28 with insert_missing in a transaction that may
-- have to be rolled back.
-- $1 now, $2 ids with commas and $3 bodies with U+001E between them, which a client encodes in a fraction
-- of the time that arrays take (JSON escapes control characters); $4 tenants, $5 queues, $6 priorities,
-- $7 due instants, $8 instants of their creation: each holds one value where all jobs have the same
INSERT INTO rota.jobs (
    id, tenant, queue, priority, status, is_due, is_awaited, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, body
)
SELECT
    id, coalesce(tenant, ($4)[1]), coalesce(queue, ($5)[1]), coalesce(priority, ($6)[1]), 'READY',
    coalesce(due_at, ($7)[1]) <= $1::timestamptz, false, coalesce(due_at, ($7)[1]),
    coalesce(created_at, ($8)[1]), coalesce(created_at, ($8)[1]), 0, 0, 0, body
FROM unnest(
    string_to_array($2::text, ',')::uuid[], string_to_array($3::text, chr(30)), $4::text[],
    $5::text[], $6::integer[], $7::timestamptz[], $8::timestamptz[]
) AS wanted (id, body, tenant, queue, priority, due_at, created_at);

-- name: insert_missing
-- One row for each job that did not exist by id or identity, and is stored now. Waits for other
-- transactions that are writing the same jobs: if they roll back, these are stored.
-- $1 now, then the columns of rows.py: ids with commas and bodies with U+001E between them; the others
-- are empty where every job has the usual value; the last four hold one value where all jobs have the
-- same
INSERT INTO rota.jobs (
    id, tenant, queue, priority, status, is_due, is_awaited, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, last_error, ending, deferral, identity, is_recurring,
    lease_worker, lease_taken_at, lease_until, body
)
SELECT
    id, tenant, queue, priority, status,
    CASE WHEN status = 'READY' THEN coalesce(due_at, created_at) <= $1 END,
    is_awaited, coalesce(due_at, created_at), created_at, coalesce(updated_at, created_at),
    attempt_count, loss_count, last_token, last_error, ending, deferral, identity, is_recurring,
    lease_worker, lease_taken_at, lease_until, body
FROM (
    SELECT
        id, body, due_at, updated_at, last_error, ending, deferral, identity, is_recurring,
        lease_worker, lease_taken_at, lease_until,
        coalesce(status, 'READY') AS status, coalesce(is_awaited, false) AS is_awaited,
        coalesce(attempt_count, 0) AS attempt_count, coalesce(loss_count, 0) AS loss_count,
        coalesce(last_token, 0) AS last_token, coalesce(tenant, ($19::text[])[1]) AS tenant,
        coalesce(queue, ($20::text[])[1]) AS queue,
        coalesce(priority, ($21::integer[])[1]) AS priority,
        coalesce(created_at, ($22::timestamptz[])[1]) AS created_at
    FROM unnest(
        string_to_array($2::text, ',')::uuid[], string_to_array($3::text, chr(30)), $4::text[],
        $5::boolean[], $6::timestamptz[], $7::timestamptz[], $8::integer[], $9::integer[],
        $10::bigint[], $11::text[], $12::text[], $13::text[], $14::uuid[], $15::boolean[],
        $16::text[], $17::timestamptz[], $18::timestamptz[],
        $19::text[], $20::text[], $21::integer[], $22::timestamptz[]
    ) AS wanted (
        id, body, status, is_awaited, due_at, updated_at,
        attempt_count, loss_count, last_token, last_error, ending, deferral,
        identity, is_recurring, lease_worker, lease_taken_at, lease_until,
        tenant, queue, priority, created_at
    )
) AS job
ON CONFLICT DO NOTHING
RETURNING 1 AS one;

-- name: insert_one
-- As insert_missing, for one job that has only just been made: single values take two thirds of the
-- time that lists take. Notifies in the same commit if there is a channel.
-- $1 now, $2 id, $3 tenant, $4 queue, $5 priority, $6 due instant, $7 instant of its creation,
-- $8 identity, $9 whether it recurs (NULL if not), $10 body, $11 channel (NULL for none), $12 message
INSERT INTO rota.jobs (
    id, tenant, queue, priority, status, is_due, is_awaited, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, identity, is_recurring, body
)
VALUES (
    $2::uuid, $3::text, $4::text, $5::integer, 'READY', $6::timestamptz <= $1::timestamptz, false,
    $6, $7::timestamptz, $7, 0, 0, 0, $8::uuid, $9::boolean, $10::text
)
ON CONFLICT DO NOTHING
RETURNING CASE WHEN $11::text IS NOT NULL THEN pg_notify($11, $12::text)::text END AS notified;

-- name: add_dependencies
-- $1 parents, $2 children
INSERT INTO rota.job_dependencies (parent, child)
SELECT parent, child FROM unnest($1::uuid[], $2::uuid[]) AS wanted (parent, child)
ON CONFLICT DO NOTHING;

-- name: set_open
-- How many dependencies jobs wait for, where that is stored.
-- $1 ids, $2 counts, $3 what they do if one fails
INSERT INTO rota.open_dependencies (job_id, open_count, on_parent_failure)
SELECT job_id, open_count, on_parent_failure
FROM unnest($1::uuid[], $2::integer[], $3::text[])
    AS wanted (job_id, open_count, on_parent_failure)
ON CONFLICT (job_id) DO UPDATE SET open_count = excluded.open_count;

-- name: read_open
-- As count_open, where the number is stored.
-- $1 ids
SELECT job_id::text AS job_id, open_count, on_parent_failure FROM rota.open_dependencies
WHERE job_id = ANY ($1::uuid[]);

-- name: remove_open
-- $1 ids of jobs
DELETE FROM rota.open_dependencies WHERE job_id = ANY ($1::uuid[]);

-- name: mark_watched
-- From then on the end of these jobs is notified. An end that is under way is waited for. Nothing is
-- lost with the mark: its commit need not wait for the disk, and holds up no lease.
-- $1 tenant, $2 ids
UPDATE rota.jobs AS job SET is_watched = true
FROM (SELECT set_config('synchronous_commit', 'off', true)) AS quick
CROSS JOIN (
    SELECT id FROM rota.jobs
    WHERE id = ANY ($2::uuid[]) AND tenant IS NOT DISTINCT FROM $1::text AND NOT is_watched
    ORDER BY id
    FOR NO KEY UPDATE
) AS wanted
WHERE job.id = wanted.id;

-- name: mark_awaited
-- $1 ids of locked jobs
UPDATE rota.jobs SET is_awaited = true WHERE id = ANY ($1::uuid[]) AND NOT is_awaited;

-- name: unmark_awaited
-- $1 ids of locked jobs; those that still have a dependent stay marked
UPDATE rota.jobs AS job SET is_awaited = false
WHERE id = ANY ($1::uuid[]) AND is_awaited
    AND NOT EXISTS (SELECT FROM rota.job_dependencies WHERE parent = job.id);

-- name: complete_jobs
-- Completes jobs that are not awaited and whose leases are still held. The answer is NULL if all were;
-- otherwise it lists the positions, from 1, of those that were.
-- $1 ids with commas, which a client encodes in a fraction of the time that an array takes; $2 tokens,
-- $3 tenants, $4 due instants, or nothing where all are those of the creation, $5 instants of the starts
-- and $6 of the ends: each holds one value where all jobs have the same; $7 results, or nothing if there
-- is none; $8 channel. A job whose end others listen for is notified in the same commit, as wakeups.py
-- reads it; of too many, none is named.
WITH ended AS (
    UPDATE rota.jobs AS job SET
        status = 'COMPLETED', loss_count = 0,
        due_at = coalesce(wanted.due_at, ($4::timestamptz[])[1], job.created_at),
        updated_at = coalesce(wanted.ended_at, ($6::timestamptz[])[1]),
        lease_taken_at = coalesce(wanted.started_at, ($5::timestamptz[])[1]), lease_until = NULL
    FROM unnest(
        string_to_array($1::text, ',')::uuid[], $2::bigint[], $3::text[], $4::timestamptz[],
        $5::timestamptz[], $6::timestamptz[], $7::bytea[]
    ) WITH ORDINALITY
        AS wanted (id, token, tenant, due_at, started_at, ended_at, result, position)
    WHERE job.id = wanted.id AND job.last_token = coalesce(wanted.token, ($2::bigint[])[1])
        AND (job.tenant, job.status)
            IS NOT DISTINCT FROM (coalesce(wanted.tenant, ($3::text[])[1]), 'RUNNING')
        AND NOT job.is_awaited
    RETURNING wanted.position, job.id, job.is_watched, wanted.result
), kept AS (
    INSERT INTO rota.job_results (job_id, body)
    SELECT id, result FROM ended WHERE result IS NOT NULL
    ON CONFLICT (job_id) DO UPDATE SET body = excluded.body
)
SELECT
    CASE
        WHEN (SELECT count(*) FROM ended) < cardinality(string_to_array($1, ','))
            THEN ARRAY(SELECT position FROM ended)
    END AS positions,
    (
        SELECT pg_notify($8::text, json_build_array(
            '', '{}'::text[], CASE WHEN count(*) <= 100 THEN array_agg(id) END
        )::text)::text
        FROM ended
        WHERE is_watched
        HAVING count(*) > 0
    ) AS notified;

-- name: move_jobs
-- Writes what a change writes of its job.
-- $1 now, then ids, statuses, due instants, attempt counts, loss counts, last tokens, last errors,
-- endings, deferrals, workers, start and end of the leases, instants of the changes
UPDATE rota.jobs AS job SET
    status = wanted.status, due_at = wanted.due_at,
    is_due = CASE WHEN wanted.status = 'READY' THEN wanted.due_at <= $1::timestamptz END,
    attempt_count = wanted.attempt_count, loss_count = wanted.loss_count,
    last_token = wanted.last_token, last_error = wanted.last_error, ending = wanted.ending,
    deferral = wanted.deferral, lease_worker = wanted.lease_worker,
    lease_taken_at = wanted.lease_taken_at, lease_until = wanted.lease_until,
    updated_at = wanted.updated_at
FROM unnest(
    $2::uuid[], $3::text[], $4::timestamptz[], $5::integer[], $6::integer[], $7::bigint[],
    $8::text[], $9::text[], $10::text[], $11::text[], $12::timestamptz[], $13::timestamptz[],
    $14::timestamptz[]
) AS wanted (
    id, status, due_at, attempt_count, loss_count, last_token, last_error, ending, deferral,
    lease_worker, lease_taken_at, lease_until, updated_at
)
WHERE job.id = wanted.id;

-- name: place_jobs
-- Releases or blocks PENDING jobs, which wait for nothing any more.
-- $1 now, $2 ids, $3 statuses, $4 endings and $5 errors of skipped jobs
WITH forgotten AS (
    DELETE FROM rota.open_dependencies WHERE job_id = ANY ($2::uuid[])
)
UPDATE rota.jobs AS job SET
    status = wanted.status, updated_at = $1::timestamptz,
    is_due = CASE WHEN wanted.status = 'READY' THEN job.due_at <= $1 END,
    ending = coalesce(wanted.ending, job.ending),
    last_error = coalesce(wanted.error, job.last_error)
FROM unnest($2, $3::text[], $4::text[], $5::text[]) AS wanted (id, status, ending, error)
WHERE job.id = wanted.id;

-- name: amend_job
-- $1 now, $2 id, $3 queue, $4 priority, $5 status, $6 due instant, $7 instant of the change,
-- $8 identity, $9 body
UPDATE rota.jobs SET
    queue = $3::text, priority = $4::integer, status = $5::text, due_at = $6::timestamptz,
    is_due = CASE WHEN $5 = 'READY' THEN $6 <= $1::timestamptz END,
    updated_at = $7::timestamptz, identity = $8::uuid, body = $9::text
WHERE id = $2::uuid;

-- name: add_attempts
-- $1 ids of jobs, $2 bodies
INSERT INTO rota.job_attempts (job_id, body)
SELECT job_id, body
FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS wanted (job_id, body, position)
ORDER BY position;

-- name: keep_results
-- $1 ids of jobs, $2 bodies
INSERT INTO rota.job_results (job_id, body)
SELECT job_id, body FROM unnest($1::uuid[], $2::bytea[]) AS wanted (job_id, body)
ON CONFLICT (job_id) DO UPDATE SET body = excluded.body;

-- name: set_aside
-- Takes unreadable jobs out of every index that statements use; their bytes stay.
-- $1 ids, $2 reasons
UPDATE rota.jobs AS job SET
    status = 'DAMAGED', is_due = NULL, set_aside = wanted.reason,
    lease_worker = NULL, lease_taken_at = NULL, lease_until = NULL
FROM unnest($1::uuid[], $2::text[]) AS wanted (id, reason)
WHERE job.id = wanted.id;

-- name: find_waiting
-- The PENDING jobs that depend on these, each with its parent. A job is looked up by its id: written
-- like this, its status does not select an index.
-- $1 parents, $2 whether also through other PENDING jobs
WITH RECURSIVE link AS (
    SELECT NULL::uuid AS parent, unnest($1::uuid[]) AS child
    UNION
    SELECT next.parent, next.child
    FROM link
    CROSS JOIN LATERAL (
        SELECT parent, child FROM rota.job_dependencies WHERE parent = link.child OFFSET 0
    ) AS next
    CROSS JOIN LATERAL (
        SELECT FROM rota.jobs WHERE id = next.child AND status || '' = 'PENDING' OFFSET 0
    ) AS job
    WHERE $2::boolean OR link.parent IS NULL
)
SELECT parent::text AS parent_id, child::text AS child_id FROM link WHERE parent IS NOT NULL;

-- name: lock_waiting
-- $1 ids; those that are not PENDING any more are left out
SELECT id::text AS job_id, tenant, queue, due_at, is_watched FROM rota.jobs
WHERE id = ANY ($1::uuid[]) AND status || '' = 'PENDING'
ORDER BY id
FOR NO KEY UPDATE;

-- name: count_open
-- How many dependencies of each job are not COMPLETED. A statement of its own, after the jobs are
-- locked: of two dependencies that end at the same time, the second sees the first.
-- $1 ids
SELECT link.child::text AS child_id, count(*) AS open_count
FROM rota.job_dependencies AS link
LEFT JOIN LATERAL (
    SELECT status FROM rota.jobs WHERE id = link.parent OFFSET 0
) AS parent ON true
WHERE link.child = ANY ($1::uuid[]) AND parent.status IS DISTINCT FROM 'COMPLETED'
GROUP BY link.child;

-- name: find_children
-- $1 parents
SELECT parent::text AS parent_id, child::text AS child_id FROM rota.job_dependencies
WHERE parent = ANY ($1::uuid[])
ORDER BY parent, child;

-- name: find_parents
-- $1 children
SELECT child::text AS child_id, parent::text AS parent_id FROM rota.job_dependencies
WHERE child = ANY ($1::uuid[])
ORDER BY child, parent;

-- name: find_dependents
-- $1 parents, $2 how many
SELECT DISTINCT child::text AS child_id FROM rota.job_dependencies
WHERE parent = ANY ($1::uuid[])
ORDER BY child_id
LIMIT $2::integer;

-- name: lock_dependencies
-- One transaction at a time changes dependencies: two that are harmless apart may close a cycle.
SELECT pg_advisory_xact_lock(hashtextextended('rota.job_dependencies', 0));

-- name: find_ancestors
-- The dependencies of these jobs and of all their ancestors.
-- $1 ids
WITH RECURSIVE link AS (
    SELECT child, parent FROM rota.job_dependencies WHERE child = ANY ($1::uuid[])
    UNION
    SELECT next.child, next.parent
    FROM link
    CROSS JOIN LATERAL (
        SELECT child, parent FROM rota.job_dependencies WHERE child = link.parent OFFSET 0
    ) AS next
)
SELECT child::text AS child_id, parent::text AS parent_id FROM link ORDER BY child, parent;

-- name: find_ended
-- Jobs that may be pruned, with their dependencies; those that ended first come first.
-- $1 ended before, $2 how many, $3 and $4 the place after which to begin
SELECT
    updated_at, id::text AS job_id,
    ARRAY(SELECT parent::text FROM rota.job_dependencies WHERE child = job.id) AS parents
FROM rota.jobs AS job
WHERE status IN ('COMPLETED', 'FAILED', 'BLOCKED') AND NOT is_awaited
    AND updated_at < $1::timestamptz AND (updated_at, id) > ($3::timestamptz, $4::uuid)
ORDER BY updated_at, id
LIMIT $2::bigint
FOR NO KEY UPDATE SKIP LOCKED;

-- name: remove_dependencies
-- The parents that have a dependent less.
-- $1 children
DELETE FROM rota.job_dependencies WHERE child = ANY ($1::uuid[])
RETURNING parent::text AS parent_id;

-- name: remove_results
-- $1 ids
DELETE FROM rota.job_results WHERE job_id = ANY ($1::uuid[]);

-- name: remove_attempts
-- $1 ids
DELETE FROM rota.job_attempts WHERE job_id = ANY ($1::uuid[]);

-- name: remove_jobs
-- With all that belongs to them, except their dependencies.
-- $1 ids
WITH attempts AS (
    DELETE FROM rota.job_attempts WHERE job_id = ANY ($1::uuid[])
), results AS (
    DELETE FROM rota.job_results WHERE job_id = ANY ($1)
), counts AS (
    DELETE FROM rota.open_dependencies WHERE job_id = ANY ($1)
)
DELETE FROM rota.jobs WHERE id = ANY ($1);

-- name: leased_columns
-- What a lease returns of a job beside its id, in the order of rows.py. The caller knows the rest. The due
-- instant is NULL where it is that of the creation, as mostly: a client takes as long to read an instant
-- as for all other columns.
    tenant, queue, priority, nullif(due_at, created_at) AS due_at, created_at, attempt_count,
    loss_count, last_token, last_error, deferral, body

-- name: can_run
-- Whether a caller that runs the kinds and offers the labels of `choice` can run a job; NULL for any. A
-- body is JSON that begins with the name, the kind and, if there is one, the label; the last two need no
-- escapes. What follows the key of the kind is cut at quotes: the first part is the kind, and a label is
-- the fifth. An unreadable body has an empty kind, which callers list: the lease finds out.
(
    (SELECT kinds FROM choice) IS NULL
    OR split_part(split_part(body, '"kind":"', 2), '"', 1) = ANY ((SELECT kinds FROM choice)::text[])
) AND (
    (SELECT labels FROM choice) IS NULL
    OR split_part(split_part(body, '"kind":"', 2), '"', 3) <> 'label'
    OR split_part(split_part(body, '"kind":"', 2), '"', 5) = ANY ((SELECT labels FROM choice)::text[])
)

-- name: leased
-- Leases what was picked, unless the caller cannot run one of the jobs.
), leased AS (
    UPDATE rota.jobs AS job SET
        status = 'RUNNING', is_due = NULL, last_token = job.last_token + 1, updated_at = $1,
        lease_worker = :worker::text, lease_taken_at = $1, lease_until = :until::timestamptz
    FROM picked
    WHERE job.id = picked.id AND NOT EXISTS (SELECT FROM picked WHERE NOT fits)
    RETURNING
        :number AS number, job.id,
-- include: leased_columns

-- name: lease
-- Fast path: leases from the ready set if all of it is in one queue and of one tenant, which is so if
-- its first and its last job are. One row for each job, in order. A single row without an id: nothing
-- is leased, because jobs must be marked as due first (its priority is 1), because there are several
-- partitions (0), or because the caller cannot run one of the next jobs (2).
--
-- $1 now, $2 the first and $3 the last queue, $4 how many, $5 end of the lease, $6 worker, $7 kinds,
-- $8 labels, $9 whether to look for jobs to mark as due
WITH choice AS MATERIALIZED (
    SELECT $7::text[] AS kinds, $8::text[] AS labels
), ends AS MATERIALIZED (
    SELECT
        first.queue, first.tenant,
        first.queue = last.queue AND first.tenant = last.tenant AS is_one,
        $9::boolean AND coalesce((
            SELECT due_at <= $1::timestamptz FROM rota.jobs
            WHERE NOT is_due ORDER BY due_at, id LIMIT 1
        ), false) AS is_late
    FROM (SELECT) AS always
    LEFT JOIN (
        SELECT queue, tenant FROM rota.jobs
        WHERE is_due AND queue >= $2::text AND queue <= $3::text
        ORDER BY queue, tenant, priority DESC, created_at, id LIMIT 1
    ) AS first ON true
    LEFT JOIN (
        SELECT queue, tenant FROM rota.jobs
        WHERE is_due AND queue >= $2 AND queue <= $3
        ORDER BY queue DESC, tenant DESC, priority, created_at DESC, id DESC LIMIT 1
    ) AS last ON true
), picked AS MATERIALIZED (
    SELECT job.id, job.fits
    FROM ends
    CROSS JOIN LATERAL (
        SELECT id, (
-- include: can_run
        ) AS fits
        FROM rota.jobs
        WHERE is_due AND queue = ends.queue AND tenant = ends.tenant AND due_at <= $1
        ORDER BY priority DESC, created_at, id
        LIMIT $4::bigint
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
    WHERE ends.is_one AND NOT ends.is_late
-- include: leased (worker = $6, until = $5, number = 1)
), ordered AS MATERIALIZED (
    SELECT * FROM leased ORDER BY priority DESC, created_at, id
)
SELECT
    id::text AS job_id,
-- include: leased_columns
FROM ordered
UNION ALL
SELECT
    NULL, NULL, NULL, CASE WHEN is_late THEN 1 WHEN is_one THEN 2 ELSE 0 END,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM ends WHERE is_late OR NOT is_one OR EXISTS (SELECT FROM picked WHERE NOT fits);

-- name: partition_steps
-- The partitions with a due job, of the next $5 tenants in turn after $4; for statements that begin
-- with them.
--
-- It steps through the index from one partition to the next, so that the number of jobs in them does
-- not matter. No name sorts after the last character there is.
--
-- $1 now, $2 queues, $3 tenants (NULL for all), $4 the tenant before the first, $5 how many tenants;
-- full: $6 queues, $7 tenants, $8 tenants and $9 queues of partitions
WITH RECURSIVE every_queue AS (
    (SELECT queue FROM rota.jobs WHERE is_due ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT following.queue
    FROM every_queue AS last
    CROSS JOIN LATERAL (
        SELECT queue FROM rota.jobs WHERE is_due AND queue > last.queue ORDER BY queue LIMIT 1
    ) AS following
), chosen_queue AS (
    SELECT queue FROM every_queue WHERE $2::text[] IS NULL AND queue <> ALL ($6::text[])
    UNION ALL
    SELECT DISTINCT queue COLLATE "C" FROM unnest($2::text[]) AS wanted (queue)
    WHERE queue <> ALL ($6)
), step AS (
    (
        SELECT
            place.queue, wave.number AS wave, wave.upper_end, head.tenant,
            1 - coalesce(full_one.number, 0) AS open_count, full_one.number IS NULL AS is_open
        FROM chosen_queue AS place
        CROSS JOIN (
            VALUES (0, $4::text COLLATE "C", chr(1114111) COLLATE "C"), (1, '', $4)
        ) AS wave (number, lower_end, upper_end)
        CROSS JOIN LATERAL (
            SELECT tenant FROM rota.jobs
            WHERE is_due AND queue = place.queue
                AND tenant > wave.lower_end AND tenant <= wave.upper_end
                AND due_at <= $1::timestamptz
            ORDER BY queue, tenant, priority DESC, created_at, id LIMIT 1
        ) AS head
        LEFT JOIN LATERAL (
            SELECT 1 AS number
            WHERE head.tenant = ANY ($7::text[]) OR EXISTS (
                SELECT FROM unnest($8::text[], $9::text[]) AS given (tenant, queue)
                WHERE given.tenant = head.tenant AND given.queue = place.queue
            )
        ) AS full_one ON true
        WHERE $3::text[] IS NULL
        UNION ALL
        SELECT place.queue, (head.tenant <= $4)::integer, '', head.tenant, 1, true
        FROM chosen_queue AS place
        CROSS JOIN (
            SELECT DISTINCT name FROM unnest($3::text[]) AS given (name) WHERE name <> ALL ($7)
        ) AS wanted
        CROSS JOIN LATERAL (
            SELECT tenant FROM rota.jobs
            WHERE is_due AND queue = place.queue AND tenant = wanted.name AND due_at <= $1
            LIMIT 1
        ) AS head
        WHERE NOT EXISTS (
            SELECT FROM unnest($8, $9) AS given (tenant, queue)
            WHERE given.tenant = head.tenant AND given.queue = place.queue
        )
    )
    UNION ALL
    SELECT
        last.queue, last.wave, last.upper_end, following.tenant,
        last.open_count + 1 - coalesce(full_one.number, 0), full_one.number IS NULL
    FROM step AS last
    CROSS JOIN LATERAL (
        SELECT tenant FROM rota.jobs
        WHERE is_due AND queue = last.queue
            AND tenant > last.tenant AND tenant <= last.upper_end AND due_at <= $1
        ORDER BY queue, tenant, priority DESC, created_at, id LIMIT 1
    ) AS following
    LEFT JOIN LATERAL (
        SELECT 1 AS number
        WHERE following.tenant = ANY ($7) OR EXISTS (
            SELECT FROM unnest($8, $9) AS given (tenant, queue)
            WHERE given.tenant = following.tenant AND given.queue = last.queue
        )
    ) AS full_one ON true
    WHERE last.open_count < $5::bigint
)

-- name: find_partitions
-- begins as: partition_steps
SELECT tenant, queue
FROM (
    SELECT tenant, queue, dense_rank() OVER (ORDER BY wave, tenant) AS number
    FROM step
    WHERE is_open
) AS open_partition
WHERE number <= $5
ORDER BY number, queue;

-- name: parts_of_turns
-- An equal part for each tenant in `turn`, of its first jobs: what follows reads them as `first`.
), part AS MATERIALIZED (
    SELECT greatest(1, :limit::bigint / nullif(count(*), 0)) AS length FROM turn
), picked AS MATERIALIZED (
    SELECT turn.number, job.id, job.fits
    FROM turn
    CROSS JOIN part
    CROSS JOIN LATERAL (
        SELECT free.id, free.fits
        FROM (
            SELECT first.id

-- name: leased_parts
-- From each part the jobs that no other caller is taking, and their lease.
            ORDER BY first.priority DESC, first.created_at, first.id
            LIMIT part.length + 8
        ) AS next
        CROSS JOIN LATERAL (
            SELECT id, (
-- include: can_run
            ) AS fits
            FROM rota.jobs
            WHERE id = next.id AND is_due IS NOT DISTINCT FROM true AND due_at <= $1
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS free
        LIMIT part.length
    ) AS job
    LIMIT :limit
-- include: leased (worker = :worker, until = :until, number = picked.number)

-- name: lease_in_turns
-- begins as: partition_steps
-- Leases an equal part for each tenant, from all its queues in one order, past jobs that other callers
-- are taking. One row for each job, as lease. A single row without an id: jobs must be marked as due
-- first (its priority is 1), or the caller cannot run one of the next jobs (2).
--
-- One statement takes half the time of find_partitions, find_first and take_jobs, which do the same:
-- 20 ms against 45 for 100 jobs of 20 tenants, on a busy machine.
--
-- $10 how many jobs, $11 end of the lease, $12 worker, $13 kinds, $14 labels, $15 whether to look for
-- jobs to mark as due
, choice AS MATERIALIZED (
    SELECT $13::text[] AS kinds, $14::text[] AS labels
), late AS MATERIALIZED (
    SELECT $15::boolean AND coalesce((
        SELECT due_at <= $1 FROM rota.jobs WHERE NOT is_due ORDER BY due_at, id LIMIT 1
    ), false) AS is_late
), turn AS MATERIALIZED (
    SELECT
        tenant, array_agg(queue) AS queues,
        row_number() OVER (ORDER BY min(wave), tenant) AS number
    FROM step CROSS JOIN late
    WHERE is_open AND NOT is_late
    GROUP BY tenant
    ORDER BY number
    LIMIT $5
-- include: parts_of_turns (limit = $10)
            FROM unnest(turn.queues) AS place (queue)
            CROSS JOIN LATERAL (
                SELECT priority, created_at, id FROM rota.jobs
                WHERE is_due AND queue = place.queue AND tenant = turn.tenant AND due_at <= $1
                ORDER BY priority DESC, created_at, id
                LIMIT part.length + 8
            ) AS first
-- include: leased_parts (limit = $10, worker = $12, until = $11)
), ordered AS MATERIALIZED (
    SELECT * FROM leased ORDER BY number, priority DESC, created_at, id
)
SELECT
    id::text AS job_id,
-- include: leased_columns
FROM ordered
UNION ALL
SELECT
    NULL, NULL, NULL, CASE WHEN is_late THEN 1 ELSE 2 END,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM late WHERE is_late OR EXISTS (SELECT FROM picked WHERE NOT fits);

-- name: lease_after
-- As lease_in_turns, from one priority of a partition each, from a job on. Jobs that become due are not
-- looked for.
-- $1 now; in the order of the turns $2 tenants, $3 queues, $4 priorities, $5 instants and $6 ids of the
-- jobs from which to go on; $7 how many jobs, $8 end of the lease, $9 worker, $10 kinds, $11 labels
WITH choice AS MATERIALIZED (
    SELECT $10::text[] AS kinds, $11::text[] AS labels
), place AS MATERIALIZED (
    SELECT wanted.*
    FROM unnest($2::text[], $3::text[], $4::integer[], $5::timestamptz[], $6::uuid[])
        WITH ORDINALITY AS wanted (tenant, queue, priority, created_at, id, number)
    CROSS JOIN LATERAL (
        SELECT FROM rota.jobs
        WHERE is_due AND queue = wanted.queue AND tenant = wanted.tenant
            AND priority = wanted.priority
            AND (created_at, id) >= (wanted.created_at, wanted.id) AND due_at <= $1::timestamptz
        ORDER BY queue, tenant, priority DESC, created_at, id
        LIMIT 1
    ) AS head
), turn AS MATERIALIZED (
    SELECT tenant, min(number) AS number FROM place GROUP BY tenant ORDER BY number
-- include: parts_of_turns (limit = $7)
            FROM place
            CROSS JOIN LATERAL (
                SELECT priority, created_at, id FROM rota.jobs
                WHERE is_due AND queue = place.queue AND tenant = place.tenant
                    AND priority = place.priority
                    AND (created_at, id) >= (place.created_at, place.id) AND due_at <= $1
                ORDER BY queue, tenant, priority DESC, created_at, id
                LIMIT part.length + 8
            ) AS first
            WHERE place.tenant = turn.tenant
-- include: leased_parts (limit = $7, worker = $9, until = $8)
)
SELECT
    id::text AS job_id,
-- include: leased_columns
FROM leased
ORDER BY number, priority DESC, created_at, id;

-- name: find_first
-- The first due jobs of partitions, or of one priority in a partition from a job on.
-- $1 now, $2 how many of each, $3 ids to leave out; $4 tenants, $5 queues, $6 priorities (NULL for
-- all), $7 instants and $8 ids of the jobs from which to go on (NULL for the beginning); $9 kinds,
-- $10 labels, $11 how many jobs of each to look at
WITH choice AS MATERIALIZED (
    SELECT $9::text[] AS kinds, $10::text[] AS labels
)
SELECT job.id::text AS job_id, wanted.tenant, wanted.queue, job.priority, job.created_at
FROM unnest($4::text[], $5::text[], $6::integer[]) AS wanted (tenant, queue, priority)
CROSS JOIN LATERAL (
    SELECT id, priority, created_at
    FROM (
        SELECT id, priority, created_at, body FROM rota.jobs
        WHERE is_due AND queue = wanted.queue AND tenant = wanted.tenant
            AND due_at <= $1::timestamptz AND id <> ALL ($3::uuid[])
        ORDER BY priority DESC, created_at, id
        LIMIT $11::bigint
    ) AS seen
    WHERE
-- include: can_run
    LIMIT $2::bigint
) AS job
WHERE wanted.priority IS NULL
UNION ALL
SELECT job.id::text, wanted.tenant, wanted.queue, job.priority, job.created_at
FROM unnest($4, $5, $6, $7::timestamptz[], $8::uuid[])
    AS wanted (tenant, queue, priority, created_at, id)
CROSS JOIN LATERAL (
    SELECT id, priority, created_at
    FROM (
        SELECT id, priority, created_at, body FROM rota.jobs
        WHERE is_due AND queue = wanted.queue AND tenant = wanted.tenant
            AND priority = wanted.priority
            AND (created_at, id) >= (
                coalesce(wanted.created_at, '-infinity'),
                coalesce(wanted.id, '00000000-0000-0000-0000-000000000000')
            )
            AND due_at <= $1 AND id <> ALL ($3)
        ORDER BY queue, tenant, priority DESC, created_at, id
        LIMIT $11
    ) AS seen
    WHERE
-- include: can_run
    LIMIT $2
) AS job
WHERE wanted.priority IS NOT NULL;

-- name: take_jobs
-- Leases jobs that find_first has found, tenant by tenant, past those that are no longer due in the same
-- partition or that another transaction has locked. One row for each job, in the given order, as lease.
-- $1 now, $2 tenants, $3 the first and $4 the last place of each; the places: $5 ids, $6 queues; $7 how
-- many of each tenant, $8 how many in all, $9 end of the lease, $10 worker, $11 kinds, $12 labels
WITH choice AS MATERIALIZED (
    SELECT $11::text[] AS kinds, $12::text[] AS labels
), picked AS MATERIALIZED (
    SELECT job.number, job.id, true AS fits
    FROM unnest($2::text[], $3::integer[], $4::integer[]) AS turn (tenant, first, last)
    CROSS JOIN LATERAL (
        SELECT place.number, free.id
        FROM generate_series(turn.first, turn.last) AS place (number)
        CROSS JOIN LATERAL (
            SELECT id FROM rota.jobs
            WHERE id = ($5::uuid[])[place.number]
                AND is_due IS NOT DISTINCT FROM true AND due_at <= $1::timestamptz
                AND (tenant, queue)
                    IS NOT DISTINCT FROM (turn.tenant, ($6::text[])[place.number])
                AND
-- include: can_run
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS free
        LIMIT $7::bigint
    ) AS job
    LIMIT $8::bigint
-- include: leased (worker = $10, until = $9, number = picked.number)
)
SELECT
    id::text AS job_id,
-- include: leased_columns
FROM leased
ORDER BY number;

-- name: mark_due
-- Puts jobs that have become due into the ready set, those due longest first.
-- $1 now, $2 how many
UPDATE rota.jobs AS job SET is_due = true
FROM (
    SELECT id FROM rota.jobs
    WHERE NOT is_due AND due_at <= $1::timestamptz
    ORDER BY due_at, id
    LIMIT $2::bigint
    FOR NO KEY UPDATE SKIP LOCKED
) AS late
WHERE job.id = late.id;

-- name: extend
-- The ids and tokens of the leases that are still held.
-- $1 ids, $2 tokens, $3 until when
UPDATE rota.jobs AS job SET lease_until = greatest(job.lease_until, $3::timestamptz)
FROM unnest($1::uuid[], $2::bigint[]) AS held (id, token)
WHERE job.id = held.id AND job.last_token = held.token
    AND job.status IS NOT DISTINCT FROM 'RUNNING'
RETURNING job.id::text, job.last_token;

-- name: lock_scopes
-- One transaction at a time counts the running jobs of a scope and leases. Scopes share 64 locks: the
-- server has room for some thousands only. All take them in the same order.
-- $1 the scopes
SELECT pg_advisory_xact_lock(hashtext('rota.limits'), slot)
FROM (
    SELECT DISTINCT (hashtextextended(scope, 0) & 63)::integer AS slot
    FROM unnest($1::text[]) AS given (scope)
    ORDER BY slot
    OFFSET 0
) AS lock;

-- name: count_running
-- The number of leased jobs of each partition: reads as many rows as workers hold.
SELECT tenant, queue, count(*) AS length FROM rota.jobs
WHERE status = 'RUNNING'
GROUP BY tenant, queue;

-- name: read_horizon
-- What holds the horizon of this database furthest back, if anything does: how many transactions have
-- begun since, the oldest transaction that is still needed, who holds it, and for how many seconds. What
-- only owners of a session and readers of all statistics may see is NULL for others. Vacuuming does not
-- count: it holds nothing back.
SELECT age(needed) AS behind_count, needed::text AS transaction, holder, lasting_for
FROM (
    SELECT
        CASE
            WHEN age(backend_xid) > age(backend_xmin) OR backend_xmin IS NULL THEN backend_xid
            ELSE backend_xmin
        END AS needed,
        format('process %s', pid) || coalesce(' of ' || nullif(usename, ''), '')
            || coalesce(' (' || nullif(application_name, '') || ')', '')
            || coalesce(', ' || state, '') AS holder,
        extract(epoch FROM clock_timestamp() - xact_start)::float8 AS lasting_for
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
        AND (datname = current_database() OR datname IS NULL)
        AND backend_type IS DISTINCT FROM 'autovacuum worker'
        AND NOT EXISTS (
            SELECT FROM pg_stat_progress_vacuum AS vacuuming
            WHERE vacuuming.pid = pg_stat_activity.pid
        )
    UNION ALL
    SELECT
        transaction, format('the prepared transaction %s of %s', gid, owner),
        extract(epoch FROM clock_timestamp() - prepared)::float8
    FROM pg_prepared_xacts
    WHERE database = current_database()
    UNION ALL
    SELECT xmin, format('the replication slot %s', slot_name), NULL
    FROM pg_replication_slots
    WHERE xmin IS NOT NULL
) AS held
ORDER BY age(needed) DESC
LIMIT 1;

-- name: count_pages
-- How many pages of the index of the ready set this session has read since it last reported it.
SELECT
    pg_backend_pid() AS session,
    pg_stat_get_xact_blocks_fetched('rota.jobs_in_line'::regclass)::bigint AS page_count;

-- name: next_due_after
-- The first instant after $1 at which a job becomes due.
SELECT due_at FROM rota.jobs WHERE NOT is_due AND due_at > $1::timestamptz
ORDER BY due_at, id LIMIT 1;

-- name: find_expired
-- begins as: job_rows
-- $1 now, $2 end of the lease and $3 id of the last one before (NULL at first), $4 how many
WHERE status = 'RUNNING' AND lease_until < $1::timestamptz
    AND (lease_until, id) > (
        coalesce($2::timestamptz, '-infinity'),
        coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    )
ORDER BY lease_until, id
LIMIT $4::bigint;

-- name: next_due
-- The first instant at which a READY job is due. In the ready set it is looked for only if nothing is
-- due there, which happens after a clock was set back.
-- $1 now
SELECT CASE
    WHEN EXISTS (SELECT FROM rota.jobs WHERE is_due AND due_at <= $1::timestamptz) THEN $1
    ELSE least(
        (SELECT min(due_at) FROM rota.jobs WHERE is_due),
        (SELECT due_at FROM rota.jobs WHERE NOT is_due ORDER BY due_at, id LIMIT 1)
    )
END AS due_at;

-- name: next_due_in
-- As next_due, in some partitions only: for each queue those of a range of tenants.
-- $1 now, $2 queues, $3 tenants (NULL for all)
WITH RECURSIVE every_queue AS (
    SELECT '' COLLATE "C" AS queue
    UNION ALL
    SELECT (
        SELECT min(queue) FROM (
            (SELECT queue FROM rota.jobs WHERE is_due AND queue > last.queue
            ORDER BY queue LIMIT 1)
            UNION ALL
            (SELECT queue FROM rota.jobs WHERE NOT is_due AND queue > last.queue
            ORDER BY queue LIMIT 1)
        ) AS following
    )
    FROM every_queue AS last
    WHERE last.queue IS NOT NULL
), place AS MATERIALIZED (
    SELECT chosen.queue, range.first, range.last
    FROM (
        SELECT queue FROM every_queue WHERE $2::text[] IS NULL AND queue > ''
        UNION ALL
        SELECT DISTINCT queue COLLATE "C" FROM unnest($2::text[]) AS wanted (queue)
    ) AS chosen
    CROSS JOIN (
        SELECT '' COLLATE "C" AS first, chr(1114111) COLLATE "C" AS last WHERE $3::text[] IS NULL
        UNION ALL
        SELECT tenant COLLATE "C", tenant COLLATE "C" FROM unnest($3) AS wanted (tenant)
    ) AS range
), later AS (
    SELECT place.queue, place.last, head.tenant, head.due_at
    FROM place
    CROSS JOIN LATERAL (
        SELECT tenant, due_at FROM rota.jobs
        WHERE NOT is_due AND queue = place.queue
            AND tenant >= place.first AND tenant <= place.last
        ORDER BY queue, tenant, due_at LIMIT 1
    ) AS head
    UNION ALL
    SELECT before.queue, before.last, following.tenant, following.due_at
    FROM later AS before
    CROSS JOIN LATERAL (
        SELECT tenant, due_at FROM rota.jobs
        WHERE NOT is_due AND queue = before.queue
            AND tenant > before.tenant AND tenant <= before.last
        ORDER BY queue, tenant, due_at LIMIT 1
    ) AS following
)
SELECT CASE
    WHEN EXISTS (
        SELECT FROM place
        CROSS JOIN LATERAL (
            SELECT FROM rota.jobs
            WHERE is_due AND queue = place.queue
                AND tenant >= place.first AND tenant <= place.last AND due_at <= $1::timestamptz
            LIMIT 1
        ) AS job
    ) THEN $1
    ELSE least((
        SELECT min(job.due_at) FROM place
        CROSS JOIN LATERAL (
            SELECT min(due_at) AS due_at FROM rota.jobs
            WHERE is_due AND queue = place.queue
                AND tenant >= place.first AND tenant <= place.last
        ) AS job
    ), (SELECT min(due_at) FROM later))
END AS due_at;

-- name: read_attempts
-- $1 tenant, $2 id of the job
SELECT attempt.body
FROM rota.jobs AS job
CROSS JOIN LATERAL (
    SELECT number, body FROM rota.job_attempts WHERE job_id = job.id
) AS attempt
WHERE job.id = $2::uuid AND job.tenant IS NOT DISTINCT FROM $1::text
ORDER BY attempt.number;

-- name: read_results
-- $1 tenant, $2 ids of jobs
SELECT kept.job_id::text AS job_id, kept.body
FROM rota.job_results AS kept
CROSS JOIN LATERAL (
    SELECT FROM rota.jobs WHERE id = kept.job_id AND tenant IS NOT DISTINCT FROM $1::text OFFSET 0
) AS job
WHERE kept.job_id = ANY ($2::uuid[]);

-- name: list_conditions
-- What a list asks of a job, beside its tenant and status.
-- $1 tenant; $2 queue, $3 status, $4 lowest and $5 highest priority, $6 created from then on and
-- $7 before then, $8 whether they recur, each NULL for any
AND ($2::text IS NULL OR queue = $2)
AND ($4::integer IS NULL OR priority >= $4) AND ($5::integer IS NULL OR priority <= $5)
AND created_at >= coalesce($6::timestamptz, '-infinity')
AND created_at < coalesce($7::timestamptz, 'infinity')
AND ($8::boolean IS NULL OR coalesce(is_recurring, false) = $8)

-- name: after_last
-- $9 instant and $10 id of the last one before (NULL at first); then $11 how many
AND created_at <= coalesce($9::timestamptz, 'infinity')
AND ($9 IS NULL OR created_at < $9 OR id > $10::uuid)

-- name: listed_at_rest
FROM rota.jobs
WHERE tenant = $1::text AND set_aside IS NULL AND status <> 'RUNNING'
    AND $3::text IS DISTINCT FROM 'RUNNING' AND ($3 IS NULL OR status = $3)
-- include: list_conditions

-- name: listed_running
-- They are in an index of their own. To be read by it, they come in its order, which no other has.
FROM rota.jobs
WHERE tenant IS NOT DISTINCT FROM $1 AND status = 'RUNNING' AND coalesce($3, 'RUNNING') = 'RUNNING'
-- include: list_conditions

-- name: find_page
SELECT
-- include: job_columns
FROM (
    (
        SELECT *
-- include: listed_at_rest
-- include: after_last
        ORDER BY created_at DESC, id
        LIMIT $11::bigint
    )
    UNION ALL
    (
        SELECT *
-- include: listed_running
-- include: after_last
        ORDER BY lease_until, id
    )
) AS job
ORDER BY created_at DESC, id
LIMIT $11;

-- name: find_listed
-- begins as: job_rows
-- As find_page, for one of the lists below.
WHERE :jobs AND set_aside IS NULL
-- include: list_conditions
-- include: after_last
ORDER BY created_at DESC, id
LIMIT $11::bigint;

-- name: count_listed
-- As count_page, for one of the lists below.
SELECT count(*) AS count FROM (
    SELECT FROM rota.jobs
    WHERE :jobs AND set_aside IS NULL
-- include: list_conditions
    LIMIT $9::bigint
) AS listed;

-- name: list_held_up
-- For a status that is PENDING, FAILED or BLOCKED.
tenant = $1::text AND status = $3::text AND status IN ('PENDING', 'FAILED', 'BLOCKED')

-- name: list_dead
tenant = $1::text AND ending IN ('exhausted', 'lost') AND status = 'FAILED'
    AND coalesce($3::text, status) = status

-- name: list_recurring
-- For jobs that recur, of one status.
tenant = $1::text AND status = $3::text AND is_recurring

-- name: list_ready
-- For READY jobs while there are few: finished jobs are not walked past.
id = ANY (ARRAY(
    SELECT id FROM rota.jobs WHERE is_due AND tenant = $1::text
    UNION ALL
    SELECT id FROM rota.jobs WHERE NOT is_due AND tenant = $1
)) AND status = $3::text

-- name: count_waiting
-- READY jobs of all tenants. $1 the most to count
SELECT (SELECT count(*) FROM (SELECT FROM rota.jobs WHERE is_due LIMIT $1::bigint) AS due)
    + (SELECT count(*) FROM (SELECT FROM rota.jobs WHERE NOT is_due LIMIT $1) AS later);

-- name: count_page
-- $9 the most to count, NULL for all
SELECT (
    SELECT count(*) FROM (
        SELECT
-- include: listed_at_rest
        LIMIT $9::bigint
    ) AS others
) + (
    SELECT count(*) FROM (
        SELECT
-- include: listed_running
        ORDER BY lease_until, id
    ) AS running
) AS count;

-- name: survey
-- The fields of a QueueDepth, for each queue. Each part reads one index; jobs that have ended are in
-- none of them, except dead letters.
-- $1 now, $2 the tenant, or NULL for all
SELECT
    queue,
    count(*) FILTER (WHERE due_at <= $1::timestamptz) AS due,
    count(*) FILTER (WHERE due_at > $1) AS later,
    count(*) FILTER (WHERE part = 'running') AS running,
    count(*) FILTER (WHERE lease_until < $1) AS stalled,
    count(*) FILTER (WHERE part = 'dead') AS dead,
    min(due_at) FILTER (WHERE due_at <= $1) AS oldest
FROM (
    SELECT queue, tenant, 'ready' AS part, due_at, NULL::timestamptz AS lease_until
    FROM rota.jobs WHERE is_due
    UNION ALL
    SELECT queue, tenant, 'ready', due_at, NULL FROM rota.jobs WHERE NOT is_due
    UNION ALL
    SELECT queue, tenant, 'running', NULL, lease_until FROM rota.jobs WHERE status = 'RUNNING'
    UNION ALL
    SELECT queue, tenant, 'dead', NULL, NULL
    FROM rota.jobs WHERE ending IN ('exhausted', 'lost') AND status = 'FAILED'
) AS part
WHERE $2::text IS NULL OR tenant = $2
GROUP BY queue
ORDER BY queue;

-- name: dump_documents
-- The server knows the length of a body without reading it.
-- $1 and $2 collection and key of the last one before, $3 how many, $4 how many bytes; one document may
-- exceed them
SELECT collection, key, version, body
FROM (
    SELECT
        collection, key, version, body,
        sum(octet_length(body)) OVER (ORDER BY collection, key) - octet_length(body) AS size_before
    FROM (
        SELECT collection, key, version, body FROM rota.documents
        WHERE (collection, key) > ($1::text, $2::text)
        ORDER BY collection, key
        LIMIT $3::bigint
    ) AS following
) AS sized
WHERE size_before < $4::bigint
ORDER BY collection, key;

-- name: dump_jobs
-- In the order of rows.py, and why a job was set aside.
-- $1 the first id, $2 how many, $3 how many bytes
SELECT
-- include: job_columns
    , set_aside
FROM (
    SELECT
        following.*,
        sum(octet_length(body)) OVER (ORDER BY id) - octet_length(body) AS size_before
    FROM (
        SELECT * FROM rota.jobs WHERE id >= $1::uuid ORDER BY id LIMIT $2::bigint
    ) AS following
) AS sized
WHERE size_before < $3::bigint
ORDER BY id;

-- name: dump_attempts
-- $1 ids of jobs
SELECT job_id::text AS job_id, body FROM rota.job_attempts
WHERE job_id = ANY ($1::uuid[])
ORDER BY job_id, number;

-- name: dump_results
-- $1 ids of jobs
SELECT job_id::text AS job_id, body FROM rota.job_results WHERE job_id = ANY ($1::uuid[]);

-- name: load_documents
-- $1 collections, $2 keys, $3 versions, $4 bodies
INSERT INTO rota.documents (collection, key, version, body)
SELECT collection, key, version, body
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[])
    AS wanted (collection, key, version, body)
ON CONFLICT DO NOTHING
RETURNING 1 AS one;
