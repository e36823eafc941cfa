"""The least that can be done: a table, an insert and a select behind Starlette's own routing."""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import asyncpg
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

TABLE = """
CREATE TABLE bare (
    id uuid PRIMARY KEY, tenant text NOT NULL, name text NOT NULL, queue text NOT NULL,
    status text NOT NULL, priority int NOT NULL, payload jsonb NOT NULL,
    created_at timestamptz NOT NULL, due_at timestamptz NOT NULL
);
CREATE INDEX bare_page ON bare (tenant, created_at DESC, id);
"""
FILL = """
INSERT INTO bare
SELECT gen_random_uuid(), 'default', 'bench', 'queue_' || mod(n, 10), 'PENDING', 1 + mod(n, 10),
       ('{"text": "' || repeat('x', 85) || '"}')::jsonb, now() - n * interval '1 second',
       now() + interval '365 days'
FROM generate_series(1, %d) AS n
"""
_INSERT = "INSERT INTO bare VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
_PAGE = "SELECT * FROM bare WHERE tenant = $1 ORDER BY created_at DESC, id LIMIT $2"
_ONE = "SELECT * FROM bare WHERE tenant = $1 AND id = $2"


def make_bare(url: str, pool_size: int) -> Starlette:
    """The application; it opens its connections when it starts."""

    @asynccontextmanager
    async def live(app: Starlette) -> AsyncIterator[None]:
        async with asyncpg.create_pool(url, min_size=pool_size, max_size=pool_size) as pool:
            app.state.pool = pool
            yield

    routes = [
        Route("/jobs", create_job, methods=["POST"]),
        Route("/jobs", list_jobs, methods=["GET"]),
        Route("/jobs/{job_id}", get_job, methods=["GET"]),
    ]
    return Starlette(routes=routes, lifespan=live)


async def create_job(request: Request) -> JSONResponse:
    body = await request.json()
    now, job_id = datetime.now(UTC), uuid.uuid4()
    values = (
        job_id, "default", body["name"], body["queue"], "PENDING", body.get("priority", 5),
        json.dumps(body["payload"]), now, now,
    )  # fmt: skip
    await request.app.state.pool.execute(_INSERT, *values)
    made = {**body, "id": str(job_id), "status": "PENDING", "created_at": now.isoformat()}
    return JSONResponse(made, status_code=201)


async def list_jobs(request: Request) -> JSONResponse:
    limit = int(request.query_params.get("limit", "20"))
    rows = await request.app.state.pool.fetch(_PAGE, "default", limit)
    return JSONResponse({"items": [_show(row) for row in rows]})


async def get_job(request: Request) -> JSONResponse:
    job_id = uuid.UUID(request.path_params["job_id"])
    row = await request.app.state.pool.fetchrow(_ONE, "default", job_id)
    return JSONResponse(_show(row))


def _show(row: asyncpg.Record) -> dict[str, object]:
    return {
        **dict(row),
        "id": str(row["id"]),
        "payload": json.loads(row["payload"]),
        "created_at": row["created_at"].isoformat(),
        "due_at": row["due_at"].isoformat(),
    }
