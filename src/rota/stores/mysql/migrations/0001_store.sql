-- compatible: no
-- Documents, jobs, what jobs depend on, and their attempts and results.
--
-- Names are bytes of UTF-8. Every text collation that both servers have ignores trailing spaces, and
-- most ignore case. Bytes are compared as they are, which is the order of code points. A name of 255
-- characters has up to 1,020 bytes; an index entry may have 3,072. Instants are microseconds since 1970.
--
-- A server commits each CREATE by itself, so every statement can be repeated.
CREATE TABLE IF NOT EXISTS rota_documents (
    collection VARBINARY(1020) NOT NULL,
    name       VARBINARY(1020) NOT NULL,
    version    BIGINT NOT NULL,
    body       LONGBLOB NOT NULL,
    PRIMARY KEY (collection, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4;

-- - is_due is 1 for a READY job that is marked as due, 0 for one that is due later, NULL for others.
-- - ended_at is updated_at of a job that has ended.
-- - is_awaited: others depend on the job, or once did. open_count: the dependencies it waits for.
-- - identity is a digest of tenant, kind, idempotency key and occurrence; NULL without a key.
-- - set_aside says why the job cannot be read. To bring a repaired job back: set_aside = NULL, is_due = 0.
-- - The stored columns at the end take the place of partial indexes: a job for which they are NULL
--   never changes its entry in these indexes.
CREATE TABLE IF NOT EXISTS rota_jobs (
    id                VARBINARY(36) NOT NULL,
    tenant            VARBINARY(1020) NOT NULL,
    queue             VARBINARY(1020) NOT NULL,
    kind              VARBINARY(1020) NOT NULL,
    priority          INT NOT NULL,
    status            VARBINARY(16) NOT NULL,
    due_at            BIGINT NOT NULL,
    is_due            TINYINT,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    ended_at          BIGINT,
    attempt_count     INT NOT NULL,
    loss_count        INT NOT NULL,
    last_error        LONGBLOB,
    ending            VARBINARY(16),
    lease_token       BIGINT,
    lease_worker      VARBINARY(1020),
    lease_taken_at    BIGINT,
    lease_until       BIGINT,
    last_token        BIGINT NOT NULL,
    deferral          LONGBLOB,
    idempotency_key   LONGBLOB,
    occurrence        LONGBLOB,
    is_recurring      TINYINT,
    is_awaited        TINYINT NOT NULL,
    open_count        INT NOT NULL,
    set_aside         LONGBLOB,
    body              LONGBLOB NOT NULL,
    identity          BINARY(32),
    on_parent_failure VARBINARY(16) NOT NULL,
    label             VARBINARY(1020),
    later_at          BIGINT AS (IF(is_due = 0, due_at, NULL)) STORED,
    series_status     VARBINARY(16) AS (IF(is_recurring = 1, status, NULL)) STORED,
    is_dead           TINYINT AS (
        IF(status = 'FAILED' AND ending IN ('exhausted', 'lost'), 1, NULL)
    ) STORED,
    PRIMARY KEY (id),
    UNIQUE KEY jobs_identity (identity),
    -- Due jobs: a partition for each queue of each tenant, in the order of rota.jobs.ordering.
    KEY jobs_due (is_due, tenant, queue, priority DESC, created_at, id),
    KEY jobs_later (later_at, id),
    KEY jobs_later_by_queue (queue, later_at, tenant),
    KEY jobs_leased (lease_until, id),
    KEY jobs_ended (ended_at, id),
    -- Lists: a tenant's jobs, the newest first; of one status; of series; dead letters.
    KEY jobs_listed (tenant, created_at DESC, id),
    KEY jobs_by_status (tenant, status, created_at DESC, id),
    KEY jobs_recurring (tenant, series_status, created_at DESC, id),
    KEY jobs_dead (is_dead, tenant, created_at DESC, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS rota_dependencies (
    parent VARBINARY(36) NOT NULL,
    child  VARBINARY(36) NOT NULL,
    PRIMARY KEY (parent, child),
    KEY dependencies_by_child (child, parent)
) ENGINE = InnoDB CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS rota_attempts (
    job_id     VARBINARY(36) NOT NULL,
    token      BIGINT NOT NULL,
    number     INT NOT NULL,
    worker     VARBINARY(1020) NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL,
    outcome    VARBINARY(1020) NOT NULL,
    error      LONGBLOB NOT NULL,
    traceback  LONGBLOB,
    log        LONGBLOB,
    PRIMARY KEY (job_id, token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS rota_results (
    job_id VARBINARY(36) NOT NULL PRIMARY KEY,
    body   LONGBLOB NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4;

-- A row for each burst of jobs that became READY, which other processes poll: the sender, and the
-- partitions as JSON, or NULL for any.
CREATE TABLE IF NOT EXISTS rota_wakeups (
    id     BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    sender VARBINARY(16) NOT NULL,
    places LONGBLOB
) ENGINE = InnoDB;

-- Rows to lock: what two transactions must not do at the same time.
CREATE TABLE IF NOT EXISTS rota_locks (name VARBINARY(16) NOT NULL PRIMARY KEY) ENGINE = InnoDB;

INSERT IGNORE INTO rota_locks (name) VALUES ('caps'), ('dependencies');
