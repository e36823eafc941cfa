"""Lease and settle through Rota's store in Redis, beside millions of jobs it must not look at."""

import asyncio
from datetime import UTC, datetime

import redis
from bench.queue_contest.peers.contestant import SETTINGS, main
from bench.queue_contest.peers.on_flatness import OnFlatness
from bench.queue_contest.peers.rota_store import HOUR

from rota.jobs import format_instant
from rota.stores.redis.address import read_address
from rota.stores.redis.keys import name_keys
from rota.stores.redis.scripts import load_script

AT_ONCE = 2_000
"""How many copies one script keeps."""

HEADS = load_script("heads").text

MULTIPLY = """
-- multiply: store copies of a job, each with an id and, within its second, instants of its own
-- ARGV    now; the job's id; the first number and the last
local head, body = redis.call('HGET', HEADS, ARGV[2]), redis.call('HGET', BODIES, ARGV[2])
for number = tonumber(ARGV[3]), tonumber(ARGV[4]) do
  local id = string.sub(ARGV[2], 1, 24) .. string.format('%012x', number)
  local copy, micros = read_head(head), string.format('%06dZ', number % 1000000)
  for _, part in ipairs({DUE, UPDATED, CREATED}) do
    copy[part] = string.sub(copy[part], 1, 20) .. micros
  end
  local place = place_of(id, copy)
  redis.call('HSET', HEADS, id, write_head(copy))
  redis.call('HSET', BODIES, id, body)
  if copy[CODE] == 'C' then
    redis.call('ZADD', COMPLETED, '0', place)
    redis.call('ZADD', ENDED, '0', copy[UPDATED] .. id)
  elseif copy[DUE] <= ARGV[1] then
    redis.call('ZADD', READY, '0', place)
  else
    redis.call('ZADD', FUTURE, '0', place)
    redis.call('ZADD', LATER, '0', copy[DUE] .. id)
    redis.call('ZADD', TIMETABLE, '0', partition_of(copy) .. copy[DUE] .. id)
  end
end
"""


class OnFlatnessInRedis(OnFlatness):
    """The same verbs; the copies are made on the server."""

    async def lay(self, rows: int) -> None:
        """So many finished, so many due later, so many ready: copies of one job of each kind."""
        finished = await self._insert_one(due_at=None)
        await self._settle_one_batch(1)
        later = await self._insert_one(due_at=datetime.now(UTC) + 24 * HOUR)
        ready = await self._insert_one(due_at=None)
        for job_id in (finished, later, ready):
            await asyncio.to_thread(_multiply, job_id, rows)

    async def explain(self) -> None:
        """There is no plan: a script says itself what it reads."""
        print("no plans: the scripts read stretches of sorted sets")


def _multiply(job_id: str, rows: int) -> None:
    settings = read_address(SETTINGS["url"])
    keys, now = name_keys(settings.name).jobs, format_instant(datetime.now(UTC))
    with redis.Redis.from_url(settings.url) as client:
        script = client.register_script(HEADS + MULTIPLY)
        for first in range(1, rows + 1, AT_ONCE):
            last = min(first + AT_ONCE - 1, rows)
            script(keys=keys, args=[now, job_id, first, last])


if __name__ == "__main__":
    main(OnFlatnessInRedis())
