-- compatible: yes
-- Results, counts of open dependencies, and which jobs are watched. Programs that do not know these go
-- on with what they know.
--
-- A COMPLETED job has its completion in the columns of the lease: the worker in lease_worker, and the
-- start in lease_taken_at. It ended at updated_at.

-- What handlers returned. Lists and leases never read it.
CREATE TABLE rota.job_results (
    job_id uuid NOT NULL,
    body   bytea NOT NULL,
    CONSTRAINT job_results_by_job PRIMARY KEY (job_id)
);

-- How many dependencies a PENDING job still waits for, if it has many, or runs or is skipped when one
-- fails; of others they are counted. The end of a dependency writes this small row, which finds room on
-- its own page, and reads no other dependency.
CREATE TABLE rota.open_dependencies (
    job_id            uuid NOT NULL,
    open_count        integer NOT NULL,
    on_parent_failure text NOT NULL,
    CONSTRAINT open_dependencies_by_job PRIMARY KEY (job_id)
) WITH (fillfactor = 50);

-- Someone listens for the end of the job: the transaction that ends it notifies. It is written under
-- the lock of the row, so that no end slips past.
ALTER TABLE rota.jobs ADD COLUMN is_watched boolean NOT NULL DEFAULT false;
