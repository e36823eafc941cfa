-- Every statement about jobs that the PostgreSQL store runs.
--
-- The schema is written as rota; a store that was given another name puts it in its place. Lists
-- come as arrays and are looked up one by one through an index, in the order they come in, which is
-- that of the ids: programs that lock rows in one order do not wait for each other in a circle. A
-- job is read in the columns and the order of rows.py.
--
-- A plan is made once, often while there are no jobs yet, and kept. So each statement leaves no
-- choice: what must not be looked up through another index than the one that is meant is compared
-- by IS NOT DISTINCT FROM, for which there are none, and what must not be reordered ends in OFFSET 0.
-- A lane is looked for in the order of all columns of the index that is meant: with sorting turned
-- off, no other can give it, whatever statistics say that are out of date or were never made.

-- name: insert_jobs
-- A job that exists already by id or identity fails the statement.
-- $1 now, then the columns of rows.py: empty where all is as usual, and of the last four one value
-- where all jobs have the same
INSERT INTO rota.jobs (
    id, tenant, queue, priority, status, is_due, is_awaited, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, last_error, ending, deferral, identity, is_recurring,
    body
)
SELECT
    id, tenant, queue, priority, status,
    CASE WHEN status = 'READY' THEN coalesce(due_at, created_at) <= $1 END,
    is_awaited, coalesce(due_at, created_at), created_at, coalesce(updated_at, created_at),
    attempt_count, loss_count, last_token, last_error, ending, deferral, identity, is_recurring,
    body
FROM (
    SELECT
        id, body, due_at, updated_at, last_error, ending, deferral, identity, is_recurring,
        coalesce(status, 'READY') AS status, coalesce(is_awaited, false) AS is_awaited,
        coalesce(attempt_count, 0) AS attempt_count, coalesce(loss_count, 0) AS loss_count,
        coalesce(last_token, 0) AS last_token, coalesce(tenant, ($16::text[])[1]) AS tenant,
        coalesce(queue, ($17::text[])[1]) AS queue,
        coalesce(priority, ($18::integer[])[1]) AS priority,
        coalesce(created_at, ($19::timestamptz[])[1]) AS created_at
    FROM unnest(
        $2::uuid[], $3::text[], $4::text[], $5::boolean[], $6::timestamptz[], $7::timestamptz[],
        $8::integer[], $9::integer[], $10::bigint[], $11::text[], $12::text[], $13::text[],
        $14::uuid[], $15::boolean[], $16::text[], $17::text[], $18::integer[], $19::timestamptz[]
    ) AS wanted (
        id, body, status, is_awaited, due_at, updated_at,
        attempt_count, loss_count, last_token, last_error, ending, deferral,
        identity, is_recurring, tenant, queue, priority, created_at
    )
) AS job;

-- name: insert_alike
-- As insert_jobs, for new jobs that differ in nothing but id and body, as most that are added at once
-- do: filling in what is usual takes an eighth of the time that the other statement takes.
-- Each list is one text, which a client writes in a fraction of the time that single values take; no
-- body holds the character between them, for JSON writes control characters in other words.
-- $1 now, $2 ids with commas, $3 bodies with U+001E between them, $4 tenant, $5 queue, $6 priority,
-- $7 instant they were made and are due
INSERT INTO rota.jobs (
    id, tenant, queue, priority, status, is_due, is_awaited, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, body
)
SELECT
    id, $4::text, $5::text, $6::integer, 'READY', $7::timestamptz <= $1::timestamptz, false,
    $7, $7, $7, 0, 0, 0, body
FROM unnest(
    string_to_array($2::text, ',')::uuid[], string_to_array($3::text, chr(30))
) AS wanted (id, body);

-- name: insert_missing
-- begins as: insert_jobs
-- The ids of those that did not exist by id or identity, and are kept now. Whoever is about to
-- write the same is waited for: if they roll back, this one is kept.
ON CONFLICT DO NOTHING
RETURNING id::text;

-- name: insert_one
-- A row if the job did not exist by id or identity, and is kept now. Whoever listens is told in the
-- same commit if there is a channel.
-- $1 now, $2 id, $3 tenant, $4 queue, $5 priority, $6 due instant, $7 instant it was made, $8 identity,
-- $9 body, $10 channel (NULL for none), $11 message, $12 whether it recurs (NULL if not)
INSERT INTO rota.jobs (
    id, tenant, queue, priority, status, is_due, is_awaited, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, identity, body, is_recurring
)
VALUES (
    $2::uuid, $3::text, $4::text, $5::integer, 'READY', $6::timestamptz <= $1::timestamptz,
    false, $6, $7::timestamptz, $7, 0, 0, 0, $8::uuid, $9::text, $12::boolean
)
ON CONFLICT DO NOTHING
RETURNING CASE WHEN $10::text IS NOT NULL THEN pg_notify($10, $11::text)::text END AS told;

-- name: read_jobs
-- $1 ids
SELECT
    id::text AS job_id, tenant, queue, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, last_error, ending, deferral,
    lease_worker, lease_taken_at, lease_until, body, is_awaited
FROM rota.jobs
WHERE id = ANY ($1::uuid[])
ORDER BY id;

-- name: lock_jobs
-- As read_jobs; nobody else changes them, or comes to depend on them, until the transaction ends.
-- $1 ids
SELECT
    id::text AS job_id, tenant, queue, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, last_error, ending, deferral,
    lease_worker, lease_taken_at, lease_until, body, is_awaited
FROM rota.jobs
WHERE id = ANY ($1::uuid[])
ORDER BY id
FOR NO KEY UPDATE;

-- name: find_twins
-- In no order: there is no index that has both.
-- $1 identities
SELECT
    id::text AS job_id, tenant, queue, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, last_error, ending, deferral,
    lease_worker, lease_taken_at, lease_until, body, is_awaited
FROM rota.jobs
WHERE identity = ANY ($1::uuid[]);

-- name: add_dependencies
-- $1 parents, $2 children
INSERT INTO rota.job_dependencies (parent, child)
SELECT parent, child FROM unnest($1::uuid[], $2::uuid[]) AS wanted (parent, child)
ON CONFLICT DO NOTHING;

-- name: mark_awaited
-- $1 ids of jobs that are locked
UPDATE rota.jobs SET is_awaited = true WHERE id = ANY ($1::uuid[]) AND NOT is_awaited;

-- name: unmark_awaited
-- $1 ids of jobs that are locked; those on which somebody still depends stay as they are
UPDATE rota.jobs AS job SET is_awaited = false
WHERE id = ANY ($1::uuid[]) AND is_awaited
    AND NOT EXISTS (SELECT FROM rota.job_dependencies WHERE parent = job.id);

-- name: lease_only_lane
-- Leases jobs of the line where all of them are of one tenant and queue: nobody takes turns then, and
-- nothing has to be divided. One row for each job, in order. A single row without an id: nothing was
-- leased, with the length 0 because there are jobs to promote first, with 1 because the line has
-- several lanes.
--
-- The line has one lane if it begins and ends in the same. It takes a quarter of the time of lease,
-- for one job nearly all of which goes into making its large plan ready to run.
--
-- $1 now, $2 the first and $3 the last queue, $4 how many, $5 until when, $6 for whom, $7 whether to
-- look for jobs to promote
WITH line AS MATERIALIZED (
    SELECT
        front.queue, front.tenant, front.queue = rear.queue AND front.tenant = rear.tenant AS is_lane,
        $7::boolean AND coalesce((
            SELECT due_at <= $1::timestamptz FROM rota.jobs
            WHERE NOT is_due ORDER BY due_at, id LIMIT 1
        ), false) AS is_late
    FROM (SELECT) AS always
    LEFT JOIN (
        SELECT queue, tenant FROM rota.jobs
        WHERE is_due AND queue >= $2::text AND queue <= $3::text
        ORDER BY queue, tenant, priority DESC, created_at, id LIMIT 1
    ) AS front ON true
    LEFT JOIN (
        SELECT queue, tenant FROM rota.jobs
        WHERE is_due AND queue >= $2 AND queue <= $3
        ORDER BY queue DESC, tenant DESC, priority, created_at DESC, id DESC LIMIT 1
    ) AS rear ON true
), picked AS MATERIALIZED (
    SELECT job.id
    FROM line
    CROSS JOIN LATERAL (
        SELECT id FROM rota.jobs
        WHERE is_due AND queue = line.queue AND tenant = line.tenant AND due_at <= $1
        ORDER BY priority DESC, created_at, id
        LIMIT $4::bigint
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
    WHERE line.is_lane AND NOT line.is_late
), leased AS (
    UPDATE rota.jobs AS job SET
        status = 'RUNNING', is_due = NULL, last_token = job.last_token + 1, updated_at = $1,
        lease_worker = $6::text, lease_taken_at = $1, lease_until = $5::timestamptz
    FROM picked
    WHERE job.id = picked.id
    RETURNING
        job.id, job.tenant, job.queue, job.priority, job.due_at, job.created_at,
        job.attempt_count, job.loss_count, job.last_token, job.last_error, job.deferral, job.body
), ordered AS MATERIALIZED (
    SELECT * FROM leased ORDER BY priority DESC, created_at, id
)
SELECT
    id::text AS job_id, tenant, queue, priority, due_at, created_at,
    attempt_count, loss_count, last_token, last_error, deferral, body, $4 AS length
FROM ordered
UNION ALL
SELECT
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    CASE WHEN is_late THEN 0 ELSE 1 END
FROM line WHERE is_late OR NOT is_lane;

-- name: lease
-- Leases jobs of the line: tenants take turns, beginning after $4, and each gets an equal part.
-- One row for each job, in order, with the length of a part. Then there may be rows without an id.
-- With the length 0, they mean that others were just taking what came next of that tenant's; with 1,
-- that after this tenant there may be more tenants to ask. Without a tenant, nothing was leased,
-- because there are jobs to promote first, which is looked for when $8 is true.
--
-- Lanes are found by stepping through the index from one to the next, so that it does not matter
-- how many jobs are in them; no name comes after the last character there is. A few more tenants
-- are looked up than have a part: others may be taking what those have. Of a tenant with one lane its first jobs are taken, past those that
-- others are just taking. Where a tenant has several, it is looked up first, without a lock, how
-- many of each come next; otherwise more would be locked than are taken, and kept from others. If
-- others take them meanwhile a lane gives fewer, and it is worth asking again, with $9, which takes
-- what there is from one lane after the other.
--
-- $1 now, $2 queues, $3 tenants (NULL for all), $4 the tenant before the first, $5 how many,
-- $6 until when, $7 for whom, $8 whether to look for jobs to promote, $9 whether any will do
WITH RECURSIVE late AS MATERIALIZED (
    SELECT $8::boolean AND coalesce((
        SELECT due_at <= $1::timestamptz FROM rota.jobs
        WHERE NOT is_due ORDER BY due_at, id LIMIT 1
    ), false) AS is_late
), every_queue AS (
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
), lane AS (
    (
        SELECT place.queue, wave.number AS wave, wave.upper_end, head.tenant, 1 AS step
        FROM late
        CROSS JOIN chosen_queue AS place
        CROSS JOIN (
            VALUES (0, $4::text COLLATE "C", chr(1114111) COLLATE "C"), (1, '', $4)
        ) AS wave (number, lower_end, upper_end)
        CROSS JOIN LATERAL (
            SELECT tenant FROM rota.jobs
            WHERE is_due AND queue = place.queue
                AND tenant > wave.lower_end AND tenant <= wave.upper_end AND due_at <= $1
            ORDER BY queue, tenant, priority DESC, created_at, id LIMIT 1
        ) AS head
        WHERE NOT late.is_late AND $3::text[] IS NULL
        UNION ALL
        SELECT place.queue, (head.tenant <= $4)::integer, '', head.tenant, NULL::integer
        FROM late
        CROSS JOIN chosen_queue AS place
        CROSS JOIN (SELECT DISTINCT name FROM unnest($3::text[]) AS given (name)) AS wanted
        CROSS JOIN LATERAL (
            SELECT tenant FROM rota.jobs
            WHERE is_due AND queue = place.queue AND tenant = wanted.name AND due_at <= $1
            LIMIT 1
        ) AS head
        WHERE NOT late.is_late
    )
    UNION ALL
    SELECT last.queue, last.wave, last.upper_end, following.tenant, last.step + 1
    FROM lane AS last
    CROSS JOIN LATERAL (
        SELECT tenant FROM rota.jobs
        WHERE is_due AND queue = last.queue
            AND tenant > last.tenant AND tenant <= last.upper_end AND due_at <= $1
        ORDER BY queue, tenant, priority DESC, created_at, id LIMIT 1
    ) AS following
    WHERE last.step < $5 + 8
), turn AS MATERIALIZED (
    SELECT
        tenant, array_agg(queue) AS queues, count(*) AS lane_count,
        row_number() OVER (ORDER BY min(wave), tenant) AS number
    FROM lane
    GROUP BY tenant
    ORDER BY number
    LIMIT $5 + 8
), part AS MATERIALIZED (
    SELECT greatest(1, $5::bigint / nullif(count(*), 0)) AS length FROM turn
), quota AS (
    SELECT turn.number, turn.tenant, turn.queues[1] AS queue, part.length, false AS has_more
    FROM turn CROSS JOIN part
    WHERE turn.lane_count = 1
    UNION ALL
    SELECT turn.number, turn.tenant, next.queue, count(*), sum(count(*)) OVER mine = part.length
    FROM turn
    CROSS JOIN part
    CROSS JOIN LATERAL (
        SELECT place.queue
        FROM unnest(turn.queues) AS place (queue)
        CROSS JOIN LATERAL (
            SELECT priority, created_at, id FROM rota.jobs
            WHERE is_due AND queue = place.queue AND tenant = turn.tenant AND due_at <= $1
            ORDER BY priority DESC, created_at, id
            LIMIT part.length
        ) AS job
        ORDER BY job.priority DESC, job.created_at, job.id
        LIMIT part.length
    ) AS next
    WHERE turn.lane_count > 1 AND NOT $9::boolean
    GROUP BY turn.number, turn.tenant, next.queue, part.length
    WINDOW mine AS (PARTITION BY turn.number)
), picked AS MATERIALIZED (
    SELECT quota.number, job.id
    FROM (SELECT * FROM quota ORDER BY number) AS quota
    CROSS JOIN LATERAL (
        SELECT id FROM rota.jobs
        WHERE is_due AND queue = quota.queue AND tenant = quota.tenant AND due_at <= $1
        ORDER BY priority DESC, created_at, id
        LIMIT quota.length
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
    UNION ALL
    SELECT turn.number, job.id
    FROM turn
    CROSS JOIN part
    CROSS JOIN LATERAL (
        SELECT any_job.id
        FROM unnest(turn.queues) AS place (queue)
        CROSS JOIN LATERAL (
            SELECT id FROM rota.jobs
            WHERE is_due AND queue = place.queue AND tenant = turn.tenant AND due_at <= $1
            ORDER BY priority DESC, created_at, id
            LIMIT part.length
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS any_job
        LIMIT part.length
    ) AS job
    WHERE turn.lane_count > 1 AND $9
    LIMIT $5
), leased AS (
    UPDATE rota.jobs AS job SET
        status = 'RUNNING', is_due = NULL, last_token = job.last_token + 1, updated_at = $1,
        lease_worker = $7::text, lease_taken_at = $1, lease_until = $6::timestamptz
    FROM picked
    WHERE job.id = picked.id
    RETURNING
        job.id, job.tenant, job.queue, job.priority, job.due_at, job.created_at,
        job.attempt_count, job.loss_count, job.last_token, job.last_error, job.deferral, job.body,
        picked.number
), ordered AS MATERIALIZED (
    SELECT * FROM leased ORDER BY number, priority DESC, created_at, id
), hindered AS (
    SELECT split.tenant
    FROM (
        SELECT number, tenant, sum(length) AS length FROM quota WHERE has_more
        GROUP BY number, tenant
    ) AS split
    LEFT JOIN (
        SELECT number, count(*) AS length FROM leased GROUP BY number
    ) AS got USING (number)
    WHERE coalesce(got.length, 0) < split.length
), following AS (
    SELECT tenant FROM turn
    WHERE number = $5 + 8 AND (SELECT count(*) FROM leased) < $5
)
SELECT
    id::text AS job_id, tenant, queue, priority, due_at, created_at,
    attempt_count, loss_count, last_token, last_error, deferral, body, part.length
FROM ordered CROSS JOIN part
UNION ALL
SELECT NULL, tenant, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0 FROM hindered
UNION ALL
SELECT NULL, tenant, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1 FROM following
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM late WHERE is_late;

-- name: promote
-- Puts jobs whose time has come into the line, the longest due first.
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
-- The ids and tokens of those that are still held.
-- $1 ids, $2 tokens, $3 until when
UPDATE rota.jobs AS job SET lease_until = greatest(job.lease_until, $3::timestamptz)
FROM unnest($1::uuid[], $2::bigint[]) AS held (id, token)
WHERE job.id = held.id AND job.last_token = held.token
    AND job.status IS NOT DISTINCT FROM 'RUNNING'
RETURNING job.id::text, job.last_token;

-- name: find_expired
-- $1 now, $2 until when and $3 id of the last one before (NULL at first), $4 how many
SELECT
    id::text AS job_id, tenant, queue, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, last_error, ending, deferral,
    lease_worker, lease_taken_at, lease_until, body, is_awaited
FROM rota.jobs
WHERE status = 'RUNNING' AND lease_until < $1::timestamptz
    AND (lease_until, id) > (
        coalesce($2::timestamptz, '-infinity'),
        coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    )
ORDER BY lease_until, id
LIMIT $4::bigint;

-- name: next_due
-- The first instant at which any job of the line or after it is due. In the line it is only looked
-- for where nothing is due, which is so when a clock was set back.
-- $1 now
SELECT CASE
    WHEN EXISTS (SELECT FROM rota.jobs WHERE is_due AND due_at <= $1::timestamptz) THEN $1
    ELSE least(
        (SELECT min(due_at) FROM rota.jobs WHERE is_due),
        (SELECT due_at FROM rota.jobs WHERE NOT is_due ORDER BY due_at, id LIMIT 1)
    )
END AS due_at;

-- name: next_due_in
-- As next_due, in some lanes only.
-- $1 now, $2 queues, $3 tenants (NULL for all)
WITH RECURSIVE every_queue AS (
    SELECT min(queue) AS queue FROM (
        (SELECT queue FROM rota.jobs WHERE is_due ORDER BY queue LIMIT 1)
        UNION ALL
        (SELECT queue FROM rota.jobs WHERE NOT is_due ORDER BY queue LIMIT 1)
    ) AS first
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
), chosen_queue AS MATERIALIZED (
    SELECT queue FROM every_queue WHERE $2::text[] IS NULL AND queue IS NOT NULL
    UNION ALL
    SELECT DISTINCT queue COLLATE "C" FROM unnest($2::text[]) AS wanted (queue)
), lane AS (
    (
        SELECT place.queue, head.tenant, true AS is_walked
        FROM chosen_queue AS place
        CROSS JOIN LATERAL (
            SELECT tenant FROM rota.jobs
            WHERE NOT is_due AND queue = place.queue
            ORDER BY queue, tenant, due_at LIMIT 1
        ) AS head
        WHERE $3::text[] IS NULL
        UNION ALL
        SELECT place.queue, wanted.tenant COLLATE "C", false
        FROM chosen_queue AS place
        CROSS JOIN unnest($3::text[]) AS wanted (tenant)
    )
    UNION ALL
    SELECT last.queue, following.tenant, true
    FROM lane AS last
    CROSS JOIN LATERAL (
        SELECT tenant FROM rota.jobs
        WHERE NOT is_due AND queue = last.queue AND tenant > last.tenant
        ORDER BY queue, tenant, due_at LIMIT 1
    ) AS following
    WHERE last.is_walked
), due AS (
    SELECT FROM chosen_queue AS place
    CROSS JOIN LATERAL (
        SELECT FROM rota.jobs
        WHERE is_due AND queue = place.queue AND due_at <= $1::timestamptz LIMIT 1
    ) AS job
    WHERE $3 IS NULL
    UNION ALL
    SELECT FROM chosen_queue AS place
    CROSS JOIN unnest($3) AS wanted (tenant)
    CROSS JOIN LATERAL (
        SELECT FROM rota.jobs
        WHERE is_due AND queue = place.queue AND tenant = wanted.tenant AND due_at <= $1 LIMIT 1
    ) AS job
), set_back AS (
    SELECT job.due_at FROM chosen_queue AS place
    CROSS JOIN LATERAL (
        SELECT min(due_at) AS due_at FROM rota.jobs WHERE is_due AND queue = place.queue
    ) AS job
    WHERE $3 IS NULL
    UNION ALL
    SELECT job.due_at FROM chosen_queue AS place
    CROSS JOIN unnest($3) AS wanted (tenant)
    CROSS JOIN LATERAL (
        SELECT min(due_at) AS due_at FROM rota.jobs
        WHERE is_due AND queue = place.queue AND tenant = wanted.tenant
    ) AS job
), later AS (
    SELECT job.due_at FROM lane
    CROSS JOIN LATERAL (
        SELECT due_at FROM rota.jobs
        WHERE NOT is_due AND queue = lane.queue AND tenant = lane.tenant
        ORDER BY due_at LIMIT 1
    ) AS job
)
SELECT CASE
    WHEN EXISTS (SELECT FROM due) THEN $1
    ELSE least((SELECT min(due_at) FROM set_back), (SELECT min(due_at) FROM later))
END AS due_at;

-- name: complete_jobs
-- Ends jobs on which nobody depends, where their leases are still held. The answer is NULL when all
-- were; otherwise it holds the positions, from 1, of those that were.
-- $1 ids, $2 tokens, $3 tenants, $4 when they were due, $5 when they ended, or nothing if that was
-- for all at $6
WITH ended AS (
    UPDATE rota.jobs AS job SET
        status = 'COMPLETED', due_at = wanted.due_at, loss_count = 0,
        updated_at = coalesce(wanted.ended_at, $6::timestamptz),
        lease_worker = NULL, lease_taken_at = NULL, lease_until = NULL
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::timestamptz[], $5::timestamptz[])
        WITH ORDINALITY AS wanted (id, token, tenant, due_at, ended_at, position)
    WHERE job.id = wanted.id AND job.last_token = wanted.token
        AND (job.tenant, job.status) IS NOT DISTINCT FROM (wanted.tenant, 'RUNNING')
        AND NOT job.is_awaited
    RETURNING wanted.position
)
SELECT CASE
    WHEN (SELECT count(*) FROM ended) < cardinality($1) THEN ARRAY(SELECT position FROM ended)
END AS positions;

-- name: move_jobs
-- Writes what a change writes of its job.
-- $1 now, then ids, statuses, due instants, attempt counts, loss counts, last tokens, last errors,
-- endings, deferrals, workers, from when and until when they have the lease, instants of the change
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

-- name: find_children
-- $1 parents
SELECT parent::text AS parent_id, child::text AS child_id FROM rota.job_dependencies
WHERE parent = ANY ($1::uuid[])
ORDER BY parent, child;

-- name: find_dependents
-- $1 parents, $2 how many
SELECT DISTINCT child::text AS child_id FROM rota.job_dependencies
WHERE parent = ANY ($1::uuid[])
ORDER BY child_id
LIMIT $2::integer;

-- name: find_waiting
-- Those that depend on any of these, directly or through others, and still wait. Each is looked up
-- by its id: written so, its status leads to no list of those that wait.
-- $1 parents
WITH RECURSIVE waiting AS (
    SELECT unnest($1::uuid[]) AS id
    UNION
    SELECT link.child
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT child FROM rota.job_dependencies WHERE parent = waiting.id OFFSET 0
    ) AS link
    CROSS JOIN LATERAL (
        SELECT FROM rota.jobs WHERE id = link.child AND status || '' = 'PENDING' OFFSET 0
    ) AS job
)
SELECT id::text AS job_id FROM waiting ORDER BY id;

-- name: find_ancestors
-- Who depends on whom, from these on upwards.
-- $1 children
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

-- name: lock_dependencies
-- One changes dependencies at a time: two that are harmless apart may be a circle together.
-- $1 tenant
SELECT pg_advisory_xact_lock(hashtextextended('rota.job_dependencies.' || $1::text, 0));

-- name: remove_dependencies
-- $1 children
DELETE FROM rota.job_dependencies WHERE child = ANY ($1::uuid[]);

-- name: remove_jobs
-- $1 ids
DELETE FROM rota.jobs WHERE id = ANY ($1::uuid[]);

-- name: remove_attempts
-- $1 ids of jobs
DELETE FROM rota.job_attempts WHERE job_id = ANY ($1::uuid[]);

-- name: add_attempts
-- $1 ids of jobs, $2 bodies
INSERT INTO rota.job_attempts (job_id, body)
SELECT job_id, body
FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS wanted (job_id, body, position)
ORDER BY position;

-- name: read_attempts
-- $1 tenant, $2 id of the job
SELECT attempt.body
FROM rota.jobs AS job
CROSS JOIN LATERAL (
    SELECT number, body FROM rota.job_attempts WHERE job_id = job.id
) AS attempt
WHERE job.id = $2::uuid AND job.tenant IS NOT DISTINCT FROM $1::text
ORDER BY attempt.number;

-- name: amend
-- $1 now, $2 id, $3 queue, $4 priority, $5 status, $6 due instant, $7 instant of the change,
-- $8 identity, $9 body
UPDATE rota.jobs SET
    queue = $3::text, priority = $4::integer, status = $5::text, due_at = $6::timestamptz,
    is_due = CASE WHEN $5 = 'READY' THEN $6 <= $1::timestamptz END,
    updated_at = $7::timestamptz, identity = $8::uuid, body = $9::text
WHERE id = $2::uuid;

-- name: set_aside
-- $1 ids, $2 reasons
UPDATE rota.jobs AS job SET
    status = 'DAMAGED', is_due = NULL, set_aside = wanted.reason,
    lease_worker = NULL, lease_taken_at = NULL, lease_until = NULL
FROM unnest($1::uuid[], $2::text[]) AS wanted (id, reason)
WHERE job.id = wanted.id;

-- name: find_ended
-- Who may be pruned, the longest ended first; nobody changes them until the transaction ends.
-- $1 ended before, $2 how many
SELECT id::text AS job_id, updated_at FROM rota.jobs
WHERE status IN ('COMPLETED', 'FAILED', 'BLOCKED') AND NOT is_awaited
    AND updated_at < $1::timestamptz
ORDER BY updated_at, id
LIMIT $2::bigint
FOR NO KEY UPDATE SKIP LOCKED;

-- name: find_parents
-- On whom these depend.
-- $1 children
SELECT child::text AS child_id, parent::text AS parent_id FROM rota.job_dependencies
WHERE child = ANY ($1::uuid[])
ORDER BY child, parent;

-- name: find_freed
-- Those of locked jobs that may be pruned once nobody depends on them, and how many do.
-- $1 ids, $2 ended before
SELECT job.id::text AS job_id, job.updated_at, (
    SELECT count(*) FROM rota.job_dependencies WHERE parent = job.id
) AS child_count
FROM rota.jobs AS job
WHERE job.id = ANY ($1::uuid[]) AND job.status IN ('COMPLETED', 'FAILED', 'BLOCKED')
    AND job.updated_at < $2::timestamptz
ORDER BY job.id;

-- name: find_page
-- Jobs that run are in another index than all others. There they are in no useful order; but it is
-- one that no other index has.
-- $1 tenant; $2 queue, $3 status, $4 lowest and $5 highest priority, $6 made from then on and
-- $7 before then, $8 whether they recur, each NULL for any; $9 instant and $10 id of the last one
-- before (NULL at first); $11 how many
SELECT
    id::text AS job_id, tenant, queue, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, last_error, ending, deferral,
    lease_worker, lease_taken_at, lease_until, body, is_awaited
FROM (
    (
        SELECT * FROM rota.jobs
        WHERE tenant = $1::text AND set_aside IS NULL AND status <> 'RUNNING'
            AND $3::text IS DISTINCT FROM 'RUNNING' AND ($3 IS NULL OR status = $3)
            AND ($2::text IS NULL OR queue = $2)
            AND ($4::integer IS NULL OR priority >= $4) AND ($5::integer IS NULL OR priority <= $5)
            AND created_at >= coalesce($6::timestamptz, '-infinity')
            AND created_at < coalesce($7::timestamptz, 'infinity')
            AND ($8::boolean IS NULL OR coalesce(is_recurring, false) = $8)
            AND created_at <= coalesce($9::timestamptz, 'infinity')
            AND ($9 IS NULL OR created_at < $9 OR id > $10::uuid)
        ORDER BY created_at DESC, id
        LIMIT $11::bigint
    )
    UNION ALL
    (
        SELECT * FROM rota.jobs
        WHERE tenant IS NOT DISTINCT FROM $1 AND status = 'RUNNING'
            AND coalesce($3, 'RUNNING') = 'RUNNING'
            AND ($2 IS NULL OR queue = $2)
            AND ($4 IS NULL OR priority >= $4) AND ($5 IS NULL OR priority <= $5)
            AND created_at >= coalesce($6, '-infinity') AND created_at < coalesce($7, 'infinity')
            AND ($8 IS NULL OR coalesce(is_recurring, false) = $8)
            AND created_at <= coalesce($9, 'infinity')
            AND ($9 IS NULL OR created_at < $9 OR id > $10)
        ORDER BY lease_until, id
    )
) AS job
ORDER BY created_at DESC, id
LIMIT $11;

-- name: find_held_up
-- As find_page, for a status that is PENDING, FAILED or BLOCKED.
SELECT
    id::text AS job_id, tenant, queue, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, last_error, ending, deferral,
    lease_worker, lease_taken_at, lease_until, body, is_awaited
FROM rota.jobs
WHERE tenant = $1::text AND set_aside IS NULL
    AND ($2::text IS NULL OR queue = $2)
    AND status = $3::text AND status IN ('PENDING', 'FAILED', 'BLOCKED')
    AND ($4::integer IS NULL OR priority >= $4) AND ($5::integer IS NULL OR priority <= $5)
    AND created_at >= coalesce($6::timestamptz, '-infinity')
    AND created_at < coalesce($7::timestamptz, 'infinity')
    AND ($8::boolean IS NULL OR coalesce(is_recurring, false) = $8)
    AND created_at <= coalesce($9::timestamptz, 'infinity')
    AND ($9 IS NULL OR created_at < $9 OR id > $10::uuid)
ORDER BY created_at DESC, id
LIMIT $11::bigint;

-- name: find_recurring
-- As find_page, for jobs that recur, of one status.
SELECT
    id::text AS job_id, tenant, queue, priority, status, due_at, created_at, updated_at,
    attempt_count, loss_count, last_token, last_error, ending, deferral,
    lease_worker, lease_taken_at, lease_until, body, is_awaited
FROM rota.jobs
WHERE tenant = $1::text AND set_aside IS NULL
    AND ($2::text IS NULL OR queue = $2)
    AND status = $3::text
    AND ($4::integer IS NULL OR priority >= $4) AND ($5::integer IS NULL OR priority <= $5)
    AND created_at >= coalesce($6::timestamptz, '-infinity')
    AND created_at < coalesce($7::timestamptz, 'infinity')
    AND is_recurring AND $8::boolean
    AND created_at <= coalesce($9::timestamptz, 'infinity')
    AND ($9 IS NULL OR created_at < $9 OR id > $10::uuid)
ORDER BY created_at DESC, id
LIMIT $11::bigint;

-- name: count_held_up
-- $1 to $8 as for find_page, for a status that is PENDING, FAILED or BLOCKED.
SELECT count(*) AS count FROM rota.jobs
WHERE tenant = $1::text AND set_aside IS NULL
    AND ($2::text IS NULL OR queue = $2)
    AND status = $3::text AND status IN ('PENDING', 'FAILED', 'BLOCKED')
    AND ($4::integer IS NULL OR priority >= $4) AND ($5::integer IS NULL OR priority <= $5)
    AND created_at >= coalesce($6::timestamptz, '-infinity')
    AND created_at < coalesce($7::timestamptz, 'infinity')
    AND ($8::boolean IS NULL OR coalesce(is_recurring, false) = $8);

-- name: count_recurring
-- $1 to $8 as for find_page, for jobs that recur, of one status.
SELECT count(*) AS count FROM rota.jobs
WHERE tenant = $1::text AND set_aside IS NULL
    AND ($2::text IS NULL OR queue = $2)
    AND status = $3::text
    AND ($4::integer IS NULL OR priority >= $4) AND ($5::integer IS NULL OR priority <= $5)
    AND created_at >= coalesce($6::timestamptz, '-infinity')
    AND created_at < coalesce($7::timestamptz, 'infinity')
    AND is_recurring AND $8::boolean;

-- name: count_page
-- $1 to $8 as for find_page
SELECT (
    SELECT count(*) FROM rota.jobs
    WHERE tenant = $1::text AND set_aside IS NULL AND status <> 'RUNNING'
        AND $3::text IS DISTINCT FROM 'RUNNING' AND ($3 IS NULL OR status = $3)
        AND ($2::text IS NULL OR queue = $2)
        AND ($4::integer IS NULL OR priority >= $4) AND ($5::integer IS NULL OR priority <= $5)
        AND created_at >= coalesce($6::timestamptz, '-infinity')
        AND created_at < coalesce($7::timestamptz, 'infinity')
        AND ($8::boolean IS NULL OR coalesce(is_recurring, false) = $8)
) + (
    SELECT count(*) FROM (
        SELECT FROM rota.jobs
        WHERE tenant IS NOT DISTINCT FROM $1 AND status = 'RUNNING'
            AND coalesce($3, 'RUNNING') = 'RUNNING'
            AND ($2 IS NULL OR queue = $2)
            AND ($4 IS NULL OR priority >= $4) AND ($5 IS NULL OR priority <= $5)
            AND created_at >= coalesce($6, '-infinity') AND created_at < coalesce($7, 'infinity')
            AND ($8 IS NULL OR coalesce(is_recurring, false) = $8)
        ORDER BY lease_until, id
    ) AS running
) AS count;

-- name: read_clock
SELECT clock_timestamp() AS now;

-- name: notify
-- What is told is worth no wait for the disk: a commit that only notifies need not survive.
-- $1 channel, $2 message
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1::text, $2::text);

-- name: notify_at_commit
-- $1 channel, $2 message
SELECT pg_notify($1::text, $2::text);

-- name: ping
SELECT 1;

-- name: set_savepoint
SAVEPOINT rota_jobs;

-- name: release_savepoint
RELEASE SAVEPOINT rota_jobs;

-- name: roll_back_to_savepoint
ROLLBACK TO SAVEPOINT rota_jobs;
