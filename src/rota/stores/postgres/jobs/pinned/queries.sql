-- What is asked while something keeps the server's horizon where it is: whatever was deleted or
-- changed since then stays in tables and indexes until it is let go.
--
-- The schema is written as rota; a store that was given another name puts it in its place.

-- name: read_horizon
-- Who keeps the horizon of this database furthest behind, if anybody does: how many transactions have
-- begun since then, the oldest transaction that is still needed, who it is, and for how many seconds
-- that has been so. What only owners of a session and those who may read all statistics get to see is
-- NULL for others. Vacuuming does not count: it holds nothing up.
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

-- name: find_places
-- Each queue, tenant and priority that is in line, with the first job there, by stepping through the
-- index from one to the next. Of what follows a place, the next priority comes before the next tenant.
-- $1 now, $2 queues, $3 tenants (NULL for all), $4 how many
WITH RECURSIVE every_queue AS (
    (SELECT queue FROM rota.jobs WHERE is_due ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT following.queue
    FROM every_queue AS last
    CROSS JOIN LATERAL (
        SELECT queue FROM rota.jobs WHERE is_due AND queue > last.queue ORDER BY queue LIMIT 1
    ) AS following
), chosen_queue AS (
    SELECT queue FROM every_queue WHERE $2::text[] IS NULL
    UNION ALL
    SELECT DISTINCT queue COLLATE "C" FROM unnest($2::text[]) AS wanted (queue)
), place AS (
    (
        SELECT chosen_queue.queue, head.tenant, head.priority, head.created_at, head.id, 1 AS step
        FROM chosen_queue
        CROSS JOIN LATERAL (
            SELECT tenant, priority, created_at, id FROM rota.jobs
            WHERE is_due AND queue = chosen_queue.queue AND due_at <= $1::timestamptz
            ORDER BY queue, tenant, priority DESC, created_at, id LIMIT 1
        ) AS head
        WHERE $3::text[] IS NULL
        UNION ALL
        SELECT chosen_queue.queue, wanted.name, head.priority, head.created_at, head.id, 1
        FROM chosen_queue
        CROSS JOIN (
            SELECT DISTINCT name COLLATE "C" AS name FROM unnest($3::text[]) AS given (name)
        ) AS wanted
        CROSS JOIN LATERAL (
            SELECT priority, created_at, id FROM rota.jobs
            WHERE is_due AND queue = chosen_queue.queue AND tenant = wanted.name AND due_at <= $1
            ORDER BY queue, tenant, priority DESC, created_at, id LIMIT 1
        ) AS head
    )
    UNION ALL
    SELECT
        last.queue, following.tenant, following.priority, following.created_at, following.id,
        last.step + 1
    FROM place AS last
    CROSS JOIN LATERAL (
        (
            SELECT tenant, priority, created_at, id FROM rota.jobs
            WHERE is_due AND queue = last.queue AND tenant = last.tenant
                AND priority < last.priority AND due_at <= $1
            ORDER BY queue, tenant, priority DESC, created_at, id LIMIT 1
        )
        UNION ALL
        (
            SELECT tenant, priority, created_at, id FROM rota.jobs
            WHERE $3 IS NULL AND is_due AND queue = last.queue AND tenant > last.tenant
                AND due_at <= $1
            ORDER BY queue, tenant, priority DESC, created_at, id LIMIT 1
        )
        LIMIT 1
    ) AS following
    WHERE last.step < $4::bigint
)
SELECT queue, tenant, priority, created_at, id::text FROM place LIMIT $4;

-- name: lease_onward
-- Leases jobs of the line from places in it that are known. Each tenant gets up to so many, and what
-- comes first of them is that of its first place. One row for each job, in order.
--
-- What lies before a place is not looked at: whoever asks goes back to the front now and then.
--
-- $1 now, $2 tenants, $3 the first and $4 the last place of each; the places: $5 queues,
-- $6 priorities, $7 when the job was made from which to go on there, $8 its id; $9 how many of each
-- tenant, $10 how many in all, $11 until when, $12 for whom
WITH picked AS MATERIALIZED (
    SELECT turn.number, job.place, job.id
    FROM unnest($2::text[], $3::integer[], $4::integer[]) WITH ORDINALITY
        AS turn (tenant, first, last, number)
    CROSS JOIN LATERAL (
        SELECT place.number AS place, behind.id
        FROM generate_series(turn.first, turn.last) AS place (number)
        CROSS JOIN LATERAL (
            SELECT id FROM rota.jobs
            WHERE is_due AND queue = ($5::text[])[place.number] AND tenant = turn.tenant
                AND priority = ($6::integer[])[place.number]
                AND (created_at, id)
                    >= (($7::timestamptz[])[place.number], ($8::uuid[])[place.number])
                AND due_at <= $1::timestamptz
            ORDER BY queue, tenant, priority DESC, created_at, id
            LIMIT $9::bigint
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS behind
        LIMIT $9
    ) AS job
    LIMIT $10::bigint
), leased AS (
    UPDATE rota.jobs AS job SET
        status = 'RUNNING', is_due = NULL, last_token = job.last_token + 1, updated_at = $1,
        lease_worker = $12::text, lease_taken_at = $1, lease_until = $11::timestamptz
    FROM picked
    WHERE job.id = picked.id
    RETURNING
        job.id, job.tenant, job.queue, job.priority, job.due_at, job.created_at,
        job.attempt_count, job.loss_count, job.last_token, job.last_error, job.deferral, job.body,
        picked.number, picked.place
), ordered AS MATERIALIZED (
    SELECT * FROM leased ORDER BY number, place, created_at, id
)
SELECT
    id::text AS job_id, tenant, queue, priority, due_at, created_at,
    attempt_count, loss_count, last_token, last_error, deferral, body, $9 AS length
FROM ordered;

-- name: next_due_onward
-- When the next job is due of those that are due later than $1, over all lanes.
SELECT due_at FROM rota.jobs WHERE NOT is_due AND due_at > $1::timestamptz
ORDER BY due_at, id LIMIT 1;
