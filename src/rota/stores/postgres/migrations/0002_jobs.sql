-- compatible: yes
-- Jobs, what they depend on, and their attempts. Programs that know documents only pass them over.
--
-- Every job. What no statement looks at is kept in body as JSON: as text, because a jsonb would
-- change numbers and the order of keys.
--
-- - is_due is the place of a READY job: true in the line of those that are due, false among those
--   that are due later; NULL for all other jobs. Leasing touches the line only.
-- - is_awaited: others depend on the job. Whoever comes to depend on it writes this in the same
--   transaction, so that the end of a job on which nobody depends is one update and no question.
-- - is_recurring is true for a job of a series, NULL for all others.
-- - identity is a digest of tenant, kind, idempotency key and occurrence; NULL without a key.
-- - set_aside says why the job cannot be read. Its status is then none that any statement looks
--   for; its bytes are kept, and it comes back when they are mended, with
--   set_aside = NULL, status = 'READY', is_due = false.
--
-- A job that is leased or ends leaves an old version of its row and of its entries in every index
-- behind. They are to be cleared away after some ten thousand jobs, however many are kept.
CREATE TABLE rota.jobs (
    id             uuid NOT NULL,
    due_at         timestamptz NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    last_token     bigint NOT NULL,
    priority       integer NOT NULL,
    attempt_count  integer NOT NULL,
    loss_count     integer NOT NULL,
    is_due         boolean,
    is_awaited     boolean NOT NULL,
    is_recurring   boolean,
    status         text COLLATE "C" NOT NULL,
    tenant         text COLLATE "C" NOT NULL,
    queue          text COLLATE "C" NOT NULL,
    body           text NOT NULL,
    lease_taken_at timestamptz,
    lease_until    timestamptz,
    lease_worker   text,
    last_error     text,
    ending         text,
    deferral       text,
    identity       uuid,
    set_aside      text,
    CONSTRAINT jobs_by_id PRIMARY KEY (id)
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.1
);

-- The line: a lane for each tenant of each queue, in the order of rota.jobs.ordering.
CREATE INDEX jobs_in_line ON rota.jobs (queue, tenant, priority DESC, created_at, id)
WHERE is_due;

-- Who is due later, over all lanes and in each.
CREATE INDEX jobs_later ON rota.jobs (due_at, id) WHERE NOT is_due;
CREATE INDEX jobs_later_in_lane ON rota.jobs (queue, tenant, due_at) WHERE NOT is_due;

CREATE INDEX jobs_leased ON rota.jobs (lease_until, id) WHERE status = 'RUNNING';

-- Who may be pruned.
CREATE INDEX jobs_ended ON rota.jobs (updated_at, id)
WHERE status IN ('COMPLETED', 'FAILED', 'BLOCKED') AND NOT is_awaited;

-- Dead letters, for whoever counts them.
CREATE INDEX jobs_dead ON rota.jobs (queue)
WHERE ending IN ('exhausted', 'lost') AND status = 'FAILED';

-- Lists: a tenant's jobs, the newest first.
CREATE INDEX jobs_listed ON rota.jobs (tenant, created_at DESC, id);

-- Lists of those that are held up, or have failed. A job that runs and is done is never in it.
CREATE INDEX jobs_held_up ON rota.jobs (tenant, status, created_at DESC, id)
WHERE status IN ('PENDING', 'FAILED', 'BLOCKED');

-- Lists of series, and of their runs. A job that does not recur is never in it.
CREATE INDEX jobs_recurring ON rota.jobs (tenant, status, created_at DESC, id)
WHERE is_recurring;

CREATE UNIQUE INDEX jobs_by_identity ON rota.jobs (identity) WHERE identity IS NOT NULL;

CREATE TABLE rota.job_dependencies (
    parent uuid NOT NULL,
    child  uuid NOT NULL,
    CONSTRAINT job_dependencies_by_parent PRIMARY KEY (parent, child)
);

CREATE INDEX job_dependencies_by_child ON rota.job_dependencies (child, parent);

-- In the order in which they were written.
CREATE TABLE rota.job_attempts (
    job_id uuid NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    body   text NOT NULL,
    CONSTRAINT job_attempts_by_job PRIMARY KEY (job_id, number)
);
