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

-- How many dependencies a PENDING job still waits for, if it has many or runs or is skipped when one
-- fails; it replaces jobs.open_count. The row is small: a job with ten thousand dependencies has a
-- body of a megabyte, which the end of each dependency would write again.
CREATE TABLE open_dependencies (
    job_id            TEXT NOT NULL PRIMARY KEY,
    open_count        INTEGER NOT NULL,
    on_parent_failure TEXT NOT NULL
) STRICT, WITHOUT ROWID;
