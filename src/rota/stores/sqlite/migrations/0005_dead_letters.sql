-- compatible: yes
-- Dead letters in the order of lists, with all that counting them needs.
DROP INDEX jobs_dead;
CREATE INDEX jobs_dead ON jobs (tenant, created_at, id DESC, queue)
WHERE ending IN ('exhausted', 'lost') AND status = 'FAILED';
