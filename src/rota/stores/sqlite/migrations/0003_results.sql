-- compatible: yes
-- Results, tracebacks and logs, and counts of open dependencies. Programs that do not know these
-- tables go on with those that they know.

-- What handlers returned. Lists and leases never read it.
CREATE TABLE job_results (
    job_id TEXT NOT NULL PRIMARY KEY,
    body   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- What a worker reported about an attempt, apart from its error.
CREATE TABLE attempt_reports (
    job_id    TEXT NOT NULL,
    token     INTEGER NOT NULL,
    traceback TEXT,
    log       TEXT,
    PRIMARY KEY (job_id, token)
) STRICT, WITHOUT ROWID;

-- The PENDING jobs that have many dependencies, or run or are skipped when one fails, and how many
-- dependencies they still wait for; it replaces jobs.open_count. A job with ten thousand dependencies
-- has a body of a megabyte, which SQLite reads with every look at its row. So the end of a
-- dependency looks at this row instead. The first columns are those of the job.
CREATE TABLE open_dependencies (
    job_id            TEXT NOT NULL PRIMARY KEY,
    tenant            TEXT NOT NULL,
    queue             TEXT NOT NULL,
    due_at            INTEGER NOT NULL,
    open_count        INTEGER NOT NULL,
    on_parent_failure TEXT NOT NULL
) STRICT, WITHOUT ROWID;
