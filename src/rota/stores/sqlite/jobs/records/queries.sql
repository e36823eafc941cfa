-- The statements by which everything in a file is taken out, and put into another.

-- name: dump_documents
-- ?1 and ?2 collection and key of the last one before, ?3 how many
SELECT collection, key, version, body FROM documents
WHERE (collection, key) > (?1, ?2)
ORDER BY collection, key
LIMIT ?3;

-- name: dump_jobs
-- ?1 the last one before, ?2 how many. In the order of rows.py, and why it was set aside.
SELECT
    id, tenant, queue, kind, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_error, ending,
    lease_token, lease_worker, lease_taken_at, lease_until,
    last_token, deferral, idempotency_key, occurrence, body, set_aside
FROM jobs
WHERE id > ?1
ORDER BY id
LIMIT ?2;

-- name: dump_attempts
-- ?1 and ?2 the first and the last job
SELECT job_id, number, token, worker, started_at, ended_at, outcome, error
FROM job_attempts
WHERE job_id BETWEEN ?1 AND ?2
ORDER BY job_id, token;

-- name: dump_parents
-- ?1 child
SELECT parent FROM job_dependencies WHERE child = ?1 ORDER BY parent;

-- name: load_unreadable
-- ?1 id, ?2 tenant, ?3 queue, ?4 body, ?5 why. It stands in no line.
INSERT INTO jobs (
    id, tenant, queue, body, set_aside,
    kind, priority, status, due_at, created_at, updated_at, attempt_count, loss_count, last_token
)
VALUES (?1, ?2, ?3, ?4, ?5, '', 1, 'READY', 0, 0, 0, 0, 0, 0)
ON CONFLICT DO NOTHING;

-- name: load_awaited
-- ?1 ids. Others depend on them, as far as they have come.
UPDATE jobs SET is_awaited = 1
WHERE is_awaited = 0
    AND id IN (SELECT value FROM json_each(?1))
    AND EXISTS (SELECT 1 FROM job_dependencies WHERE parent = jobs.id);

-- name: load_open_counts
-- ?1 ids that have just come: for them and for those who depend on them. A job that has not come
-- yet is waited for.
WITH concerned (id) AS (
    SELECT value FROM json_each(?1)
    UNION
    SELECT needed.child
    FROM json_each(?1) AS come
    CROSS JOIN job_dependencies AS needed ON needed.parent = come.value
)
UPDATE jobs SET open_count = (
    SELECT count(*)
    FROM job_dependencies AS needed
    LEFT JOIN jobs AS parents ON parents.id = needed.parent
    WHERE needed.child = jobs.id AND coalesce(parents.status, '') <> 'COMPLETED'
)
WHERE status = 'PENDING' AND id IN (SELECT id FROM concerned);
