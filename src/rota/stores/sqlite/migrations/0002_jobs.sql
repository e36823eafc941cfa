-- compatible: yes
-- Jobs, what they depend on, and their attempts. Programs that know documents only pass them over.
--
-- Every job. Instants are microseconds since 1970 in UTC; what no statement looks at is kept in
-- ``body`` as JSON, in bytes: a text that is damaged would stop the reading of all others.
--
-- - ``is_due`` is the place of a READY job: 1 in the line of those that are due, 0 among those that
--   are due later; NULL for all other jobs. Leasing touches the line only.
-- - ``ended_at`` is ``updated_at`` of a job that has ended. To ask for the three statuses instead
--   costs as much, with every write, as the write itself.
-- - ``is_recurring`` is 1 for a job of a series, NULL for all others.
-- - ``is_awaited``: others depend on the job, or did. ``open_count`` is how many of its own
--   dependencies have not been COMPLETED, as long as it is PENDING.
-- - ``set_aside`` says why the job cannot be read. It stands in no line, its bytes are kept, and it
--   comes back when they are mended, with ``set_aside = NULL, is_due = 0``.
--
-- The table is its own primary key's tree (WITHOUT ROWID): every index ends in the id anyway.
CREATE TABLE jobs (
    id              TEXT NOT NULL PRIMARY KEY,
    tenant          TEXT NOT NULL,
    queue           TEXT NOT NULL,
    kind            TEXT NOT NULL,
    priority        INTEGER NOT NULL,
    status          TEXT NOT NULL,
    due_at          INTEGER NOT NULL,
    is_due          INTEGER,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    attempt_count   INTEGER NOT NULL,
    loss_count      INTEGER NOT NULL,
    last_error      TEXT,
    ending          TEXT,
    lease_token     INTEGER,
    lease_worker    TEXT,
    lease_taken_at  INTEGER,
    lease_until     INTEGER,
    last_token      INTEGER NOT NULL,
    deferral        TEXT,
    idempotency_key TEXT,
    occurrence      TEXT,
    is_recurring    INTEGER,
    is_awaited      INTEGER NOT NULL DEFAULT 0,
    open_count      INTEGER NOT NULL DEFAULT 0,
    set_aside       TEXT,
    body            BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The line: a lane for each queue of each tenant, in the order of rota.jobs.ordering.
CREATE INDEX jobs_in_line ON jobs (tenant, queue, priority DESC, created_at, id, due_at)
WHERE is_due = 1;

-- Who is due later, over all queues and for each.
CREATE INDEX jobs_later ON jobs (due_at, id, tenant) WHERE is_due = 0;
CREATE INDEX jobs_later_by_queue ON jobs (queue, due_at, tenant) WHERE is_due = 0;

CREATE INDEX jobs_leased ON jobs (lease_until, id) WHERE lease_until IS NOT NULL;

-- Who may be pruned.
CREATE INDEX jobs_ended ON jobs (ended_at, id) WHERE ended_at IS NOT NULL;

-- Dead letters, for whoever counts them.
CREATE INDEX jobs_dead ON jobs (queue)
WHERE ending IN ('exhausted', 'lost') AND status = 'FAILED';

-- Lists: a tenant's jobs, the newest first.
CREATE INDEX jobs_listed ON jobs (tenant, created_at DESC, id);

-- Lists of those that are held up, or have failed. A job that runs and is done is never in it.
CREATE INDEX jobs_held_up ON jobs (tenant, status, created_at DESC, id)
WHERE status IN ('PENDING', 'FAILED', 'BLOCKED');

-- Lists of series, and of their runs. A job that does not recur is never in it.
CREATE INDEX jobs_recurring ON jobs (tenant, status, created_at DESC, id)
WHERE is_recurring = 1;

-- Only one job has an identity; no occurrence is an occurrence like any other.
CREATE UNIQUE INDEX jobs_identity ON jobs (
    tenant, kind, idempotency_key, coalesce('=' || occurrence, '')
) WHERE idempotency_key IS NOT NULL;

CREATE TABLE job_dependencies (
    parent TEXT NOT NULL,
    child  TEXT NOT NULL,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_dependencies_by_child ON job_dependencies (child, parent);

CREATE TABLE job_attempts (
    job_id     TEXT NOT NULL,
    token      INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    worker     TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    outcome    TEXT NOT NULL,
    error      TEXT NOT NULL,
    PRIMARY KEY (job_id, token)
) STRICT, WITHOUT ROWID;
