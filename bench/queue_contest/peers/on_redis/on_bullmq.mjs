// BullMQ, one worker a process; finished jobs are removed, which is its quickest.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import readline from 'node:readline';

const settings = JSON.parse(process.env.QUEUE_CONTEST);
const require = createRequire(path.join(settings.modules, 'package.json'));
const { Queue, Worker } = require('bullmq');
const connection = { path: settings.socket, maxRetriesPerRequest: null };
const QUEUE = 'bench';

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

const makeQueue = () => new Queue(QUEUE, { connection, defaultJobOptions: { removeOnComplete: true } });

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
    for (let number = 0; number < count; number++) await this.queue.add(KIND, PAYLOAD);
  },
  async bulk(count) {
    for (let done = 0; done < count; done += settings.bulk_size) {
      const size = Math.min(settings.bulk_size, count - done);
      await this.queue.addBulk(Array.from({ length: size }, () => ({ name: KIND, data: PAYLOAD })));
    }
  },
  async feed(count, rate) {
    await pace(count, rate, () => this.queue.add(KIND, makePayload(now())));
  },
};

async function work() {
  const tally = new Tally();
  const worker = new Worker(QUEUE, async (job) => tally.count(job.data), {
    connection,
    concurrency: settings.concurrent,
    autorun: false,
  });
  await worker.waitUntilReady();
  console.log('ready');
  const lines = readline.createInterface({ input: process.stdin });
  await new Promise((resolve) => lines.once('line', resolve));
  lines.close();
  await worker.run();
}

const [verb, ...numbers] = process.argv.slice(2);
if (verb === 'work') {
  await work();
} else if (verb !== 'prepare') {
  const context = { queue: makeQueue() };
  await context.queue.waitUntilReady();
  if (verb === 'enqueue') await verbs.enqueue.call(context, 10);
  const begin = performance.now();
  await verbs[verb].call(context, ...numbers.map(Number));
  console.log(JSON.stringify({ seconds: (performance.now() - begin) / 1000 }));
  process.exit(0);
}
