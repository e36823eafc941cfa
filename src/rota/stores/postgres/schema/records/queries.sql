-- The statements by which everything in a schema is taken out, and put into another.
--
-- The schema is written as rota; a store that was given another name puts it in its place.

-- name: dump_documents
-- $1 and $2 collection and key of the last one before, $3 how many, $4 how many bytes; one may
-- exceed them. How long a body is, the server knows without reading it.
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
-- $1 the first one, $2 how many, $3 how many bytes. In the order of rows.py, and why it was set
-- aside.
SELECT
    id::text AS job_id, tenant, queue, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, last_error, ending, deferral,
    lease_worker, lease_taken_at, lease_until, body, is_awaited, set_aside
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

-- name: dump_parents
-- $1 child
SELECT parent::text AS parent FROM rota.job_dependencies WHERE child = $1::uuid ORDER BY parent;

-- name: load_documents
-- $1 collections, $2 keys, $3 versions, $4 bodies
INSERT INTO rota.documents (collection, key, version, body)
SELECT collection, key, version, body
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[])
    AS wanted (collection, key, version, body)
ON CONFLICT DO NOTHING
RETURNING 1 AS one;

-- name: find_loaded
-- $1 ids with commas, $2 identities with commas. Those of them that are there, of both.
SELECT id::text AS name FROM rota.jobs WHERE id = ANY (string_to_array($1::text, ',')::uuid[])
UNION ALL
SELECT replace(identity::text, '-', '') AS name FROM rota.jobs
WHERE identity = ANY (string_to_array($2::text, ',')::uuid[]);

-- name: load_unreadable
-- $1 ids, $2 tenants, $3 queues, $4 bodies, $5 why. They stand in no line.
INSERT INTO rota.jobs (
    id, tenant, queue, body, set_aside, status, is_awaited, priority,
    due_at, created_at, updated_at, last_token, attempt_count, loss_count
)
SELECT
    id, tenant, queue, body, $5::text, 'DAMAGED', false, 1,
    to_timestamp(0), to_timestamp(0), to_timestamp(0), 0, 0, 0
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS wanted (id, tenant, queue, body)
ON CONFLICT DO NOTHING
RETURNING 1 AS one;

-- name: load_awaited
-- $1 ids. Others depend on them, as far as they have come.
UPDATE rota.jobs AS job SET is_awaited = true
WHERE id = ANY ($1::uuid[]) AND NOT is_awaited
    AND EXISTS (SELECT FROM rota.job_dependencies WHERE parent = job.id);
