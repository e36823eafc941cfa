-- What is asked of a PostgreSQL database by whoever looks after it.
--
-- The schema is written as rota; a store that was given another name puts it in its place.

-- name: read_server
-- The server, whether the schema has its list of migrations, and how much room its tables and their
-- indexes take.
SELECT
    current_setting('server_version') AS version,
    to_regnamespace('rota') IS NOT NULL AS has_schema,
    to_regclass('rota.migrations') IS NOT NULL AS has_migrations,
    (
        SELECT coalesce(sum(pg_total_relation_size(relation.oid)), 0)::bigint
        FROM pg_class AS relation
        WHERE relation.relnamespace = to_regnamespace('rota')
            AND relation.relkind IN ('r', 'm')
    ) AS size;

-- name: count_documents
SELECT collection, count(*) AS number FROM rota.documents GROUP BY collection ORDER BY collection;

-- name: count_jobs
SELECT status, count(*) AS number, count(set_aside) AS aside FROM rota.jobs GROUP BY status;
