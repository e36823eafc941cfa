-- compatible: yes
-- Dead letters in the order of lists, with all that counting them needs.
DROP INDEX rota.jobs_dead;
CREATE INDEX jobs_dead ON rota.jobs (tenant, created_at DESC, id) INCLUDE (queue)
WHERE ending IN ('exhausted', 'lost') AND status = 'FAILED';
