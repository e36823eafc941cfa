// What every contestant written in JavaScript is built on, as contestant.py is for Python: payload, counting handler,
// command line.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import readline from 'node:readline';

export const settings = JSON.parse(process.env.QUEUE_CONTEST);
export const require = createRequire(path.join(settings.modules, 'package.json'));
export const KIND = 'noop';
export const now = () => (performance.timeOrigin + performance.now()) / 1000;

const PAYLOAD_SIZE = 100;
const AT_ONCE = 50;

export const makePayload = (at = 0) => {
  const payload = { user: 123456, email: 'someone@example.com', at, pad: '' };
  const bare = JSON.stringify({ ...payload, at: 0 }).length;
  return { ...payload, pad: 'x'.repeat(PAYLOAD_SIZE - bare) };
};
export const PAYLOAD = makePayload();

// The same file as the Python contestants write; Node has no shared memory, so it is written every few milliseconds.
export class Tally {
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

// The sizes of the pieces that a bulk is handed in by.
export function* pieces(count) {
  for (let done = 0; done < count; done += settings.bulk_size) yield Math.min(settings.bulk_size, count - done);
}

// Jobs where there is no call for many: one by one, but many calls at once.
export async function layIn(count, call) {
  let left = count;
  const goOn = async () => {
    while (left-- > 0) await call();
  };
  await Promise.all(Array.from({ length: AT_ONCE }, goOn));
}

// Says that the worker is connected, and waits for the starting gun.
export async function awaitGun() {
  console.log('ready');
  const lines = readline.createInterface({ input: process.stdin });
  await new Promise((resolve) => lines.once('line', resolve));
  lines.close();
}

async function feed(count, rate, add) {
  const begin = performance.now();
  for (let number = 0; number < count; number++) {
    const wait = begin + (number * 1000) / rate - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    await add(makePayload(now()));
  }
}

async function enqueue(count, add) {
  for (let number = 0; number < count; number++) await add(PAYLOAD);
}

// Carries out the verb of the command line. A contestant has `connect`, `add(payload)`, `bulk(count)`, `work(tally)`
// and perhaps `prepare`.
export async function main(contestant) {
  const [verb, ...numbers] = process.argv.slice(2);
  if (verb === 'prepare') {
    await contestant.prepare?.();
    process.exit(0);
  }
  if (verb === 'work') {
    await contestant.work(new Tally());
    return;
  }
  await contestant.connect();
  const add = (payload) => contestant.add(payload);
  const verbs = { enqueue, feed, bulk: (count) => contestant.bulk(count) };
  if (verb === 'enqueue') await enqueue(10, add);
  const begin = performance.now();
  await verbs[verb](...numbers.map(Number), add);
  console.log(JSON.stringify({ seconds: (performance.now() - begin) / 1000 }));
  process.exit(0);
}
