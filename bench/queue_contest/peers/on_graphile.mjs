// Graphile Worker. With settings.localQueue it fetches and completes in batches: its best; without, as delivered.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import readline from 'node:readline';

const settings = JSON.parse(process.env.QUEUE_CONTEST);
const require = createRequire(path.join(settings.modules, 'package.json'));
const { run, makeWorkerUtils, runMigrations, Logger } = require('graphile-worker');
const logger = new Logger(() => () => {});
const connectionString = settings.url;

const KIND = 'noop';
const PAYLOAD_SIZE = 100;
const now = () => (performance.timeOrigin + performance.now()) / 1000;
const makePayload = (at = 0) => {
  const payload = { user: 123456, email: 'someone@example.com', at, pad: '' };
  const bare = JSON.stringify({ ...payload, at: 0 }).length;
  return { ...payload, pad: 'x'.repeat(PAYLOAD_SIZE - bare) };
};
const PAYLOAD = makePayload();

// The same file as the Python contestants write; Node has no shared memory, so it is written every few milliseconds.
class Tally {
  constructor() {
    this.file = fs.openSync(path.join(settings.folder, `${process.pid}.tally`), 'w');
    this.handled = 0;
    this.latencies = [];
    setInterval(() => this.write(), 2).unref();
  }
  count(payload) {
    if (payload.at) this.latencies.push(now() - payload.at);
    this.handled++;
  }
  write() {
    const counts = Buffer.alloc(16);
    counts.writeBigUInt64LE(BigInt(this.handled), 0);
    counts.writeBigUInt64LE(BigInt(this.latencies.length), 8);
    fs.writeSync(this.file, Buffer.concat([counts, Buffer.from(Float64Array.from(this.latencies).buffer)]), 0, undefined, 0);
  }
}

const makePreset = () => ({
  worker: {
    connectionString,
    concurrentJobs: settings.concurrent,
    maxPoolSize: 10,
    pollInterval: settings.poll * 1000,
    ...(settings.localQueue
      ? { localQueue: { size: settings.localQueue }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }
      : {}),
  },
});

async function pace(count, rate, call) {
  const begin = performance.now();
  for (let number = 0; number < count; number++) {
    const wait = begin + (number * 1000) / rate - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    await call();
  }
}

const verbs = {
  async enqueue(count) {
    for (let number = 0; number < count; number++) await this.utils.addJob(KIND, PAYLOAD);
  },
  async bulk(count) {
    for (let done = 0; done < count; done += settings.bulk_size) {
      const size = Math.min(settings.bulk_size, count - done);
      await this.utils.addJobs(Array.from({ length: size }, () => ({ identifier: KIND, payload: PAYLOAD })));
    }
  },
  async feed(count, rate) {
    await pace(count, rate, () => this.utils.addJob(KIND, makePayload(now())));
  },
};

async function work() {
  console.log('ready');
  const lines = readline.createInterface({ input: process.stdin });
  await new Promise((resolve) => lines.once('line', resolve));
  lines.close();
  const tally = new Tally();
  const runner = await run({ preset: makePreset(), logger, taskList: { [KIND]: async (payload) => tally.count(payload) } });
  await runner.promise;
}

const [verb, ...numbers] = process.argv.slice(2);
if (verb === 'prepare') {
  await runMigrations({ connectionString, logger });
} else if (verb === 'work') {
  await work();
} else {
  const context = { utils: await makeWorkerUtils({ connectionString, logger }) };
  if (verb === 'enqueue') await verbs.enqueue.call(context, 10);
  const begin = performance.now();
  await verbs[verb].call(context, ...numbers.map(Number));
  console.log(JSON.stringify({ seconds: (performance.now() - begin) / 1000 }));
  process.exit(0);
}
