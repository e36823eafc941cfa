-- Every statement about jobs that the SQLite store runs.
--
-- Instants are microseconds since 1970. Lists of ids come as JSON arrays; CROSS JOIN keeps the
-- order of the loops, so that each id is looked up and nothing is walked through. A job is read in
-- the columns and the order of rows.py.

-- name: insert
-- All columns, in the order of the table; a job that exists by id or identity is left as it is.
INSERT INTO jobs (
    id, tenant, queue, kind, priority, status, due_at, is_due, created_at, updated_at,
    ended_at, attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, is_recurring, body
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    ?21, ?22, ?23, ?24, ?25
)
ON CONFLICT DO NOTHING;

-- name: take_back
-- ?1 the id of a job that was inserted in this transaction.
DELETE FROM jobs WHERE id = ?1;

-- name: read_jobs
-- ?1 ids
SELECT
    jobs.id, tenant, queue, kind, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, body
FROM json_each(?1) AS wanted
CROSS JOIN jobs ON jobs.id = wanted.value;

-- name: read_statuses
-- ?1 ids
SELECT jobs.tenant, jobs.id, jobs.status
FROM json_each(?1) AS wanted
CROSS JOIN jobs ON jobs.id = wanted.value;

-- name: find_twin
-- ?1 tenant, ?2 kind, ?3 idempotency key, ?4 occurrence
SELECT id FROM jobs
WHERE tenant = ?1 AND kind = ?2 AND idempotency_key = ?3
    AND coalesce('=' || occurrence, '') = coalesce('=' || ?4, '');

-- name: add_dependency
-- ?1 parent, ?2 child
INSERT INTO job_dependencies (parent, child) VALUES (?1, ?2) ON CONFLICT DO NOTHING;

-- name: mark_awaited
-- ?1 parent
UPDATE jobs SET is_awaited = 1 WHERE id = ?1 AND is_awaited = 0;

-- name: count_open
-- ?1 child; right once its dependencies have been written.
UPDATE jobs SET open_count = (
    SELECT count(*)
    FROM job_dependencies AS needed
    CROSS JOIN jobs AS parents ON parents.id = needed.parent
    WHERE needed.child = ?1 AND parents.status <> 'COMPLETED'
)
WHERE id = ?1;

-- name: promote
-- ?1 now, ?2 how many at most. The longest due first; nearly always there are none.
UPDATE jobs SET is_due = 1
WHERE id IN (
    SELECT id FROM jobs WHERE is_due = 0 AND due_at <= ?1 ORDER BY due_at, id LIMIT ?2
);

-- name: next_lane
-- ?1 tenant, ?2 queue. The first lane from there on, and when the first in it is due. A queue given
-- as bytes comes after every text, and so after all lanes of its tenant.
SELECT tenant, queue, due_at FROM jobs
WHERE is_due = 1 AND (tenant, queue) >= (?1, ?2)
ORDER BY tenant, queue, priority DESC, created_at, id
LIMIT 1;

-- name: is_lane_due
-- ?1 tenant, ?2 queue, ?3 now. A clock that was set back finds some in line that are not due.
SELECT 1 FROM jobs WHERE is_due = 1 AND tenant = ?1 AND queue = ?2 AND due_at <= ?3 LIMIT 1;

-- name: look_along
-- ?1 tenant, ?2 queue, ?3 now, ?4 how many. The first of a lane, as order_key has them.
SELECT -priority, created_at, id FROM jobs
WHERE is_due = 1 AND tenant = ?1 AND queue = ?2 AND due_at <= ?3
ORDER BY priority DESC, created_at, id
LIMIT ?4;

-- name: look_along_level
-- ?1 tenant, ?2 queue, ?3 now, ?4 how many, ?5 priority. The same of those with one priority.
SELECT -priority, created_at, id FROM jobs
WHERE is_due = 1 AND tenant = ?1 AND queue = ?2 AND priority = ?5 AND due_at <= ?3
ORDER BY created_at, id
LIMIT ?4;

-- name: read_leased
-- The lane of every job that is leased: there are as many as workers have in hand.
SELECT tenant, queue FROM jobs WHERE lease_until IS NOT NULL;

-- name: lease_lane
-- ?1 tenant, ?2 queue, ?3 now, ?4 how many, ?5 worker, ?6 until. What rota.jobs.decide_lease
-- decides, for the first of a lane; they come in no order.
UPDATE jobs SET
    status = 'RUNNING', is_due = NULL, updated_at = ?3, last_token = last_token + 1,
    lease_token = last_token + 1, lease_worker = ?5, lease_taken_at = ?3, lease_until = ?6
WHERE id IN (
    SELECT id FROM jobs
    WHERE is_due = 1 AND tenant = ?1 AND queue = ?2 AND due_at <= ?3
    ORDER BY priority DESC, created_at, id
    LIMIT ?4
)
RETURNING
    id, tenant, queue, kind, priority, due_at, created_at, last_token,
    attempt_count, loss_count, last_error, ending, deferral,
    idempotency_key, occurrence, body;

-- name: lease_chosen
-- ?1 ids, ?2 now, ?3 worker, ?4 until. The same for jobs that were looked up before.
UPDATE jobs SET
    status = 'RUNNING', is_due = NULL, updated_at = ?2, last_token = last_token + 1,
    lease_token = last_token + 1, lease_worker = ?3, lease_taken_at = ?2, lease_until = ?4
WHERE id IN (SELECT value FROM json_each(?1))
RETURNING
    id, tenant, queue, kind, priority, due_at, created_at, last_token,
    attempt_count, loss_count, last_error, ending, deferral,
    idempotency_key, occurrence, body;

-- name: set_aside
-- ?1 id, ?2 why. The job cannot be read: it leaves the line and waits to be looked at.
UPDATE jobs SET
    set_aside = ?2, status = 'READY', is_due = NULL,
    lease_token = NULL, lease_worker = NULL, lease_taken_at = NULL, lease_until = NULL
WHERE id = ?1;

-- name: extend
-- ?1 id, ?2 token, ?3 until
UPDATE jobs SET lease_until = max(lease_until, ?3) WHERE id = ?1 AND lease_token = ?2;

-- name: move
-- ?1 to ?15 what a change writes, ?16 id, ?17 tenant, ?18 and ?19 the status and the token it
-- expects, ?20 whether others may depend on the job, ?21 the instant at which the lease must have
-- run out, or NULL.
UPDATE jobs SET
    status = ?1, due_at = ?2, is_due = ?3, attempt_count = ?4, loss_count = ?5, last_error = ?6,
    ending = ?7, lease_token = ?8, lease_worker = ?9, lease_taken_at = ?10, lease_until = ?11,
    last_token = ?12, deferral = ?13, updated_at = ?14, ended_at = ?15
WHERE id = ?16 AND tenant = ?17 AND status = ?18 AND last_token = ?19
    AND is_awaited <= ?20 AND (?21 IS NULL OR lease_until < ?21);

-- name: complete
-- ?1 when it was due, ?2 now, ?3 id, ?4 tenant, ?5 the token it expects. What move does for a job that
-- succeeds and on which nobody depends: under the same token, the rest is as it was when leased.
UPDATE jobs SET
    status = 'COMPLETED', due_at = ?1, loss_count = 0, updated_at = ?2, ended_at = ?2,
    lease_token = NULL, lease_worker = NULL, lease_taken_at = NULL, lease_until = NULL
WHERE id = ?3 AND tenant = ?4 AND status = 'RUNNING' AND last_token = ?5 AND is_awaited = 0;

-- name: add_attempt
-- In the order of the fields of an Attempt.
INSERT OR REPLACE INTO job_attempts (
    job_id, number, token, worker, started_at, ended_at, outcome, error
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: lower_open_counts
-- ?1 a job that has been COMPLETED
UPDATE jobs SET open_count = open_count - 1
WHERE status = 'PENDING' AND id IN (SELECT child FROM job_dependencies WHERE parent = ?1);

-- name: release
-- ?1 the job that has been COMPLETED, ?2 now. What rota.jobs.decide_release decides.
UPDATE jobs SET status = 'READY', is_due = (due_at <= ?2), updated_at = ?2
WHERE status = 'PENDING' AND open_count = 0
    AND id IN (SELECT child FROM job_dependencies WHERE parent = ?1)
RETURNING id, queue;

-- name: block
-- ?1 the job that has ended badly, ?2 now. What rota.jobs.decide_block decides, for all who wait
-- for it directly or through others; SQLite keeps the way in a table, however long it is.
WITH RECURSIVE below (id) AS (
    SELECT waiting.id
    FROM job_dependencies AS needed
    CROSS JOIN jobs AS waiting ON waiting.id = needed.child
    WHERE needed.parent = ?1 AND waiting.status = 'PENDING'
    UNION
    SELECT waiting.id
    FROM below
    CROSS JOIN job_dependencies AS needed ON needed.parent = below.id
    CROSS JOIN jobs AS waiting ON waiting.id = needed.child
    WHERE waiting.status = 'PENDING'
)
UPDATE jobs SET status = 'BLOCKED', updated_at = ?2, ended_at = ?2
WHERE id IN (SELECT id FROM below)
RETURNING id;

-- name: find_dependents
-- ?1 parent
SELECT child FROM job_dependencies WHERE parent = ?1 ORDER BY child;

-- name: has_dependents
-- ?1 parent
SELECT 1 FROM job_dependencies WHERE parent = ?1 LIMIT 1;

-- name: read_dependents
-- ?1 parents, ?2 their tenant, ?3 how many
SELECT
    jobs.id, tenant, queue, kind, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, body
FROM (
    SELECT DISTINCT needed.child
    FROM json_each(?1) AS parents
    CROSS JOIN job_dependencies AS needed ON needed.parent = parents.value
) AS children
CROSS JOIN jobs ON jobs.id = children.child
WHERE tenant = ?2
ORDER BY jobs.id
LIMIT ?3;

-- name: find_ancestors
-- ?1 ids. Who depends on whom, from these jobs upwards.
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

-- name: amend
-- ?1 to ?10 what an amendment may change, ?11 id
UPDATE jobs SET
    queue = ?1, kind = ?2, priority = ?3, status = ?4, due_at = ?5, is_due = ?6, updated_at = ?7,
    ended_at = ?8, deferral = ?9, body = ?10
WHERE id = ?11;

-- name: remove
-- ?1 id
DELETE FROM jobs WHERE id = ?1;

-- name: remove_attempts
-- ?1 job
DELETE FROM job_attempts WHERE job_id = ?1;

-- name: remove_dependencies
-- ?1 child
DELETE FROM job_dependencies WHERE child = ?1 RETURNING parent;

-- name: find_ended
-- ?1 the instant before which they ended, ?2 how many. The longest ago first; none that others
-- depend on.
SELECT ended_at, id FROM jobs
WHERE ended_at IS NOT NULL AND ended_at < ?1
    AND NOT EXISTS (SELECT 1 FROM job_dependencies WHERE parent = jobs.id)
ORDER BY ended_at, id
LIMIT ?2;

-- name: find_freed
-- ?1 the instant before which it ended, ?2 id. The same for one job.
SELECT ended_at, id FROM jobs
WHERE id = ?2 AND ended_at < ?1
    AND NOT EXISTS (SELECT 1 FROM job_dependencies WHERE parent = jobs.id);

-- name: read_expired
-- ?1 now, ?2 and ?3 the last of the page before, by its expiry and id, ?4 how many
SELECT
    id, tenant, queue, kind, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, body
FROM jobs
WHERE lease_until IS NOT NULL AND lease_until < ?1 AND (lease_until, id) > (?2, ?3)
ORDER BY lease_until, id
LIMIT ?4;

-- name: first_later
SELECT due_at FROM jobs WHERE is_due = 0 ORDER BY due_at LIMIT 1;

-- name: first_later_of_tenants
-- ?1 tenants. Walks past the jobs of others, in the index; the plus keeps it from reading all jobs
-- of these tenants instead.
SELECT due_at FROM jobs
WHERE is_due = 0 AND +tenant IN (SELECT value FROM json_each(?1))
ORDER BY due_at
LIMIT 1;

-- name: first_later_of_queue
-- ?1 queue
SELECT due_at FROM jobs WHERE is_due = 0 AND queue = ?1 ORDER BY due_at LIMIT 1;

-- name: first_later_of_both
-- ?1 queue, ?2 tenants
SELECT due_at FROM jobs
WHERE is_due = 0 AND queue = ?1 AND tenant IN (SELECT value FROM json_each(?2))
ORDER BY due_at
LIMIT 1;

-- name: first_in_lane
-- ?1 tenant, ?2 queue. Only for a lane in which none is due, because the clock was set back.
SELECT min(due_at) FROM jobs WHERE is_due = 1 AND tenant = ?1 AND queue = ?2;

-- name: find
-- ?1 tenant, ?2 queue, ?3 status, ?4 and ?5 lowest and highest priority, ?6 and ?7 the first and
-- the last instant they may be created at, ?8 whether they recur, ?9 and ?10 the last of the page
-- before, ?11 how many. Queue, status and ?8 do not matter when they are NULL. A page begins where
-- the one before it ended: ?7 is not after ?9.
SELECT
    id, tenant, queue, kind, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, body
FROM jobs
WHERE tenant = ?1 AND created_at BETWEEN ?6 AND ?7 AND (created_at < ?9 OR id > ?10)
    AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR status = ?3)
    AND priority BETWEEN ?4 AND ?5
    AND (?8 IS NULL OR coalesce(is_recurring, 0) = ?8)
ORDER BY created_at DESC, id
LIMIT ?11;

-- name: find_held_up
-- As find, for a status that is PENDING, FAILED or BLOCKED.
SELECT
    id, tenant, queue, kind, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, body
FROM jobs INDEXED BY jobs_held_up
WHERE status IN ('PENDING', 'FAILED', 'BLOCKED')
    AND tenant = ?1 AND created_at BETWEEN ?6 AND ?7 AND (created_at < ?9 OR id > ?10)
    AND (?2 IS NULL OR queue = ?2) AND status = ?3
    AND priority BETWEEN ?4 AND ?5
    AND (?8 IS NULL OR coalesce(is_recurring, 0) = ?8)
ORDER BY created_at DESC, id
LIMIT ?11;

-- name: find_recurring
-- As find, for jobs that recur, of one status.
SELECT
    id, tenant, queue, kind, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, body
FROM jobs INDEXED BY jobs_recurring
WHERE is_recurring = 1
    AND tenant = ?1 AND created_at BETWEEN ?6 AND ?7 AND (created_at < ?9 OR id > ?10)
    AND (?2 IS NULL OR queue = ?2) AND status = ?3
    AND priority BETWEEN ?4 AND ?5
    AND is_recurring = ?8
ORDER BY created_at DESC, id
LIMIT ?11;

-- name: find_running
-- As find, for the status RUNNING: all that run are looked at, and they are few.
SELECT
    id, tenant, queue, kind, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, body
FROM jobs INDEXED BY jobs_leased
WHERE lease_until IS NOT NULL
    AND tenant = ?1 AND created_at BETWEEN ?6 AND ?7 AND (created_at < ?9 OR id > ?10)
    AND (?2 IS NULL OR queue = ?2) AND status = ?3
    AND priority BETWEEN ?4 AND ?5
    AND (?8 IS NULL OR coalesce(is_recurring, 0) = ?8)
ORDER BY created_at DESC, id
LIMIT ?11;

-- name: find_few_ready
-- As find, for the status READY where few jobs are: all of them are looked at. CROSS JOIN keeps
-- SQLite from looking at all jobs in the order of the list instead.
SELECT
    jobs.id, tenant, queue, kind, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, body
FROM (
    SELECT id FROM jobs INDEXED BY jobs_in_line WHERE is_due = 1 AND tenant = ?1
    UNION ALL
    SELECT id FROM jobs INDEXED BY jobs_later WHERE is_due = 0 AND tenant = ?1
) AS ready
CROSS JOIN jobs ON jobs.id = ready.id
WHERE created_at BETWEEN ?6 AND ?7 AND (created_at < ?9 OR jobs.id > ?10)
    AND (?2 IS NULL OR queue = ?2) AND status = ?3
    AND priority BETWEEN ?4 AND ?5
    AND (?8 IS NULL OR coalesce(is_recurring, 0) = ?8)
ORDER BY created_at DESC, jobs.id
LIMIT ?11;

-- name: count_ready
-- ?1 tenant, ?2 how many are enough to know that there are many
SELECT count(*) FROM (
    SELECT * FROM (
        SELECT 1 FROM jobs INDEXED BY jobs_in_line WHERE is_due = 1 AND tenant = ?1 LIMIT ?2
    )
    UNION ALL
    SELECT * FROM (
        SELECT 1 FROM jobs INDEXED BY jobs_later WHERE is_due = 0 AND tenant = ?1 LIMIT ?2
    )
);

-- name: count_held_up
-- The first eight of find, for a status that is PENDING, FAILED or BLOCKED.
SELECT count(*) FROM jobs INDEXED BY jobs_held_up
WHERE status IN ('PENDING', 'FAILED', 'BLOCKED')
    AND tenant = ?1 AND created_at BETWEEN ?6 AND ?7
    AND (?2 IS NULL OR queue = ?2) AND status = ?3
    AND priority BETWEEN ?4 AND ?5
    AND (?8 IS NULL OR coalesce(is_recurring, 0) = ?8);

-- name: count_recurring
-- The first eight of find, for jobs that recur, of one status.
SELECT count(*) FROM jobs INDEXED BY jobs_recurring
WHERE is_recurring = 1
    AND tenant = ?1 AND created_at BETWEEN ?6 AND ?7
    AND (?2 IS NULL OR queue = ?2) AND status = ?3
    AND priority BETWEEN ?4 AND ?5
    AND is_recurring = ?8;

-- name: count
-- The first eight of find.
SELECT count(*) FROM jobs
WHERE tenant = ?1 AND created_at BETWEEN ?6 AND ?7
    AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR status = ?3)
    AND priority BETWEEN ?4 AND ?5
    AND (?8 IS NULL OR coalesce(is_recurring, 0) = ?8);

-- name: count_all
-- ?1 tenant; the index is enough.
SELECT count(*) FROM jobs WHERE tenant = ?1;

-- name: read_attempts
-- ?1 tenant, ?2 job
SELECT job_id, number, token, worker, started_at, ended_at, outcome, error
FROM job_attempts
WHERE job_id = ?2 AND EXISTS (SELECT 1 FROM jobs WHERE id = ?2 AND tenant = ?1)
ORDER BY token;

-- name: rescue_jobs
-- All jobs of a damaged file from its first, until one cannot be read.
SELECT
    id, tenant, queue, kind, priority, status, due_at, is_due, created_at, updated_at, ended_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, is_recurring, body,
    is_awaited, open_count, set_aside
FROM jobs
ORDER BY id;

-- name: rescue_jobs_backwards
-- The same from its last.
SELECT
    id, tenant, queue, kind, priority, status, due_at, is_due, created_at, updated_at, ended_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, is_recurring, body,
    is_awaited, open_count, set_aside
FROM jobs
ORDER BY id DESC;

-- name: restore_job
-- One that was saved before is left as it is.
INSERT INTO jobs (
    id, tenant, queue, kind, priority, status, due_at, is_due, created_at, updated_at, ended_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, is_recurring, body,
    is_awaited, open_count, set_aside
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28
)
ON CONFLICT DO NOTHING;

-- name: rescue_dependencies
SELECT parent, child FROM job_dependencies ORDER BY parent, child;

-- name: rescue_dependencies_backwards
SELECT parent, child FROM job_dependencies ORDER BY parent DESC, child DESC;

-- name: rescue_attempts
SELECT job_id, number, token, worker, started_at, ended_at, outcome, error
FROM job_attempts
ORDER BY job_id, token;

-- name: rescue_attempts_backwards
SELECT job_id, number, token, worker, started_at, ended_at, outcome, error
FROM job_attempts
ORDER BY job_id DESC, token DESC;
