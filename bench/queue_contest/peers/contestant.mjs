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

async function takeTurn(seconds, add) {
  const before = process.cpuUsage();
  const begin = performance.now();
  let count = 0;
  let elapsed = 0;
  while (elapsed < seconds) {
    for (let number = 0; number < 5; number++, count++) await add(PAYLOAD);
    elapsed = (performance.now() - begin) / 1000;
  }
  const { user, system } = process.cpuUsage(before);
  return { count, seconds: elapsed, cpu: (user + system) / 1e6 };
}

// As start.py does: after `ready`, each line on standard input is a turn, a number of seconds.
async function takeTurns(add) {
  for (let number = 0; number < 50; number++) await add(PAYLOAD);
  console.log('ready');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await takeTurn(Number(line), add)));
  }
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
  if (verb === 'turns') {
    await takeTurns(add);
    process.exit(0);
  }
  const verbs = { feed, bulk: (count) => contestant.bulk(count) };
  const begin = performance.now();
  await verbs[verb](...numbers.map(Number), add);
  console.log(JSON.stringify({ seconds: (performance.now() - begin) / 1000 }));
  process.exit(0);
}
