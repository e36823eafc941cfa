-- What is asked of a SQLite file by whoever looks after it.

-- name: forbid_writing
PRAGMA query_only = ON;

-- name: list_tables
SELECT name FROM sqlite_schema WHERE type = 'table';

-- name: count_documents
SELECT collection, count(*) FROM documents GROUP BY collection ORDER BY collection;

-- name: count_jobs
SELECT status, count(*), count(set_aside) FROM jobs GROUP BY status;

-- name: survey
-- ?1 now, ?2 the tenant, or NULL for all. For each queue what a QueueDepth has, in its order. Each
-- part reads one index, and what has ended is in none of them, dead letters apart; without being
-- told so, SQLite would rather read the whole table in the order of another index.
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
    WHERE ending IN ('exhausted', 'lost') AND status = 'FAILED'
        AND (?2 IS NULL OR tenant = ?2)
    GROUP BY queue
)
GROUP BY queue
ORDER BY queue;
