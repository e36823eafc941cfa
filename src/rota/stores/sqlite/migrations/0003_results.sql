-- compatible: no
-- Results, tracebacks and logs of attempts, and the counts of open dependencies in a table of their
-- own. A program that knows only the tables before would count elsewhere.

-- What handlers returned. Lists and leases never read it.
CREATE TABLE job_results (
    job_id TEXT NOT NULL PRIMARY KEY,
    body   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE job_attempts ADD COLUMN traceback TEXT;
ALTER TABLE job_attempts ADD COLUMN log TEXT;

-- How many dependencies a PENDING job still waits for. The row is small: the job of a fan-in of ten
-- thousand has a body of megabytes, which the end of each dependency would write again.
CREATE TABLE open_dependencies (
    job_id            TEXT NOT NULL PRIMARY KEY,
    open_count        INTEGER NOT NULL,
    on_parent_failure TEXT NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO open_dependencies
SELECT id, open_count, 'block' FROM jobs WHERE status = 'PENDING';
