-- The statements for polling a table of the user's own on PostgreSQL.
--
-- {table} and the columns are quoted names; {condition} is the user's own text, in parentheses, or TRUE.
-- The values of the condition come first, so {now} and the like are the numbers after them.

-- name: describe_table
-- $1 is the quoted name of the table. No rows: there is no such table.
SELECT
    column_.attname::text AS name,
    format_type(column_.atttypid, NULL) AS type,
    kind.typcategory::text AS category,
    coalesce(nullif(kind.typbasetype, 0), kind.oid)::bigint AS base,
    column_.attnotnull AS is_required,
    EXISTS (
        SELECT FROM pg_index AS index_
        WHERE
            index_.indrelid = column_.attrelid
            AND index_.indisunique
            AND index_.indpred IS NULL
            AND index_.indnkeyatts = 1
            AND index_.indkey[0] = column_.attnum
    ) AS is_unique
FROM pg_attribute AS column_
INNER JOIN pg_type AS kind ON column_.atttypid = kind.oid
WHERE
    column_.attrelid = to_regclass($1)
    AND column_.attnum > 0
    AND NOT column_.attisdropped
ORDER BY column_.attnum;

-- name: lock_next
-- Rows that another transaction holds are passed over. A row that was changed since the statement began
-- is checked again before it is taken. The first column is the lock as the table has rounded it; the
-- others are the row as it was.
WITH next_row AS (
    SELECT * FROM {table}
    WHERE {sleep_until} <= {now} AND {condition}
    ORDER BY {sleep_until}, {id}
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)

UPDATE {table} AS locked SET {sleep_until} = {until}
FROM next_row
WHERE locked.{id} = next_row.{id}
RETURNING locked.{sleep_until}, next_row.*;

-- name: update_row
UPDATE {table} SET {changes} WHERE {id} = $1 AND {sleep_until} = $2 RETURNING 1;

-- name: find_held_row
SELECT 1 FROM {table} WHERE {id} = $1 AND {sleep_until} = $2;

-- name: remove_row
DELETE FROM {table} WHERE {id} = $1 AND {sleep_until} = $2 RETURNING 1;

-- name: create_index
CREATE INDEX IF NOT EXISTS {index} ON {table} ({sleep_until}, {id}) WHERE {sleep_until} IS NOT NULL;
