-- The statements of a lease under limits. None is run where there are no limits.

-- name: lock_scopes
-- One counts the places of a scope, and takes them, at a time. There are few locks, and scopes
-- share them: the server has room for some thousands only. They are taken in the same order by all.
-- $1 the scopes
SELECT pg_advisory_xact_lock(hashtext('rota.limits'), slot)
FROM (
    SELECT DISTINCT (hashtextextended(scope, 0) & 63)::integer AS slot
    FROM unnest($1::text[]) AS given (scope)
    ORDER BY slot
    OFFSET 0
) AS lock;

-- name: count_running
-- How many jobs of each lane are leased: as many rows are read as workers have in hand.
SELECT tenant, queue, count(*) AS length FROM rota.jobs
WHERE status = 'RUNNING'
GROUP BY tenant, queue;

-- name: find_lanes
-- The lanes with a due job and a place, of so many tenants in their turns, beginning after $4.
-- It steps from lane to lane as the plain lease does, past those that are full.
-- $1 now, $2 queues, $3 tenants (NULL for all), $4 the tenant before the first, $5 how many tenants,
-- $6 queues that are full, $7 tenants that are, $8 tenants and $9 queues of the lanes that are
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
), lane AS (
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
    FROM lane AS last
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
SELECT tenant, queue
FROM (
    SELECT tenant, queue, dense_rank() OVER (ORDER BY wave, tenant) AS number
    FROM lane
    WHERE is_open
) AS open_lane
WHERE number <= $5
ORDER BY number, queue;

-- name: look_along
-- The first of each lane; of a lane that ages, the first of each of its priorities.
-- $1 now, $2 tenants and $3 queues of the lanes, $4 whether they age, $5 how many,
-- $6 ids that are passed over
SELECT job.id::text AS job_id, lane.tenant, lane.queue, job.priority, job.created_at
FROM unnest($2::text[], $3::text[], $4::boolean[]) AS lane (tenant, queue, is_aged)
CROSS JOIN LATERAL (
    SELECT id, priority, created_at FROM rota.jobs
    WHERE is_due AND queue = lane.queue AND tenant = lane.tenant
        AND due_at <= $1::timestamptz AND id <> ALL ($6::uuid[])
    ORDER BY priority DESC, created_at, id
    LIMIT $5::bigint
) AS job
WHERE NOT lane.is_aged
UNION ALL
SELECT job.id::text, lane.tenant, lane.queue, level.priority, job.created_at
FROM unnest($2, $3, $4) AS lane (tenant, queue, is_aged)
CROSS JOIN generate_series(1, 10) AS level (priority)
CROSS JOIN LATERAL (
    SELECT id, created_at FROM rota.jobs
    WHERE is_due AND queue = lane.queue AND tenant = lane.tenant
        AND priority = level.priority AND due_at <= $1 AND id <> ALL ($6)
    ORDER BY created_at, id
    LIMIT $5
) AS job
WHERE lane.is_aged;

-- name: lease_chosen
-- Leases jobs that were looked up, as far as they still stand in the same lane and nobody else is
-- taking them; in no order.
-- $1 now, $2 ids, $3 tenants, $4 queues, $5 until when, $6 for whom
WITH picked AS MATERIALIZED (
    SELECT job.id
    FROM unnest($2::uuid[], $3::text[], $4::text[]) AS wanted (id, tenant, queue)
    CROSS JOIN LATERAL (
        SELECT id FROM rota.jobs
        WHERE id = wanted.id AND is_due IS NOT DISTINCT FROM true AND due_at <= $1::timestamptz
            AND (tenant, queue) IS NOT DISTINCT FROM (wanted.tenant, wanted.queue)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
)
UPDATE rota.jobs AS job SET
    status = 'RUNNING', is_due = NULL, last_token = job.last_token + 1, updated_at = $1,
    lease_worker = $6::text, lease_taken_at = $1, lease_until = $5::timestamptz
FROM picked
WHERE job.id = picked.id
RETURNING
    job.id::text AS job_id, job.tenant, job.queue, job.priority, job.due_at, job.created_at,
    job.attempt_count, job.loss_count, job.last_token, job.last_error, job.deferral, job.body,
    0 AS length;
