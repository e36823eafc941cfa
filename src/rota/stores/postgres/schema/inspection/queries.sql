-- What is asked of a PostgreSQL database by whoever looks after it.
--
-- The schema is written as rota; a store that was given another name puts it in its place.

-- name: read_server
-- The server, whether the schema has its list of migrations, and how much room its tables and their
-- indexes take.
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

-- name: survey
-- $1 now, $2 the tenant, or NULL for all. For each queue what a QueueDepth has, in its order. Each
-- part reads one index, and what has ended is in none of them, dead letters apart.
SELECT
    queue, sum(due)::bigint, sum(later)::bigint, sum(running)::bigint, sum(stalled)::bigint,
    sum(dead)::bigint, min(oldest)
FROM (
    SELECT
        queue,
        count(*) FILTER (WHERE due_at <= $1::timestamptz) AS due,
        count(*) FILTER (WHERE due_at > $1::timestamptz) AS later,
        0 AS running,
        0 AS stalled,
        0 AS dead,
        min(due_at) FILTER (WHERE due_at <= $1::timestamptz) AS oldest
    FROM rota.jobs
    WHERE is_due AND ($2::text IS NULL OR tenant = $2)
    GROUP BY queue
    UNION ALL
    SELECT
        queue, count(*) FILTER (WHERE due_at <= $1::timestamptz),
        count(*) FILTER (WHERE due_at > $1::timestamptz), 0, 0, 0,
        min(due_at) FILTER (WHERE due_at <= $1::timestamptz)
    FROM rota.jobs
    WHERE NOT is_due AND ($2::text IS NULL OR tenant = $2)
    GROUP BY queue
    UNION ALL
    SELECT
        queue, 0, 0, count(*), count(*) FILTER (WHERE lease_until < $1::timestamptz), 0, NULL
    FROM rota.jobs
    WHERE status = 'RUNNING' AND ($2::text IS NULL OR tenant = $2)
    GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, 0, 0, count(*), NULL
    FROM rota.jobs
    WHERE ending IN ('exhausted', 'lost') AND status = 'FAILED'
        AND ($2::text IS NULL OR tenant = $2)
    GROUP BY queue
) AS part
GROUP BY queue
ORDER BY queue;
