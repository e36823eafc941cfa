// A worker in JavaScript, for Node 18 and later, without dependencies: leases jobs over HTTP, runs
// several at once, extends their leases, and reports their outcomes.
//
//   ROTA_URL=http://127.0.0.1:8080 ROTA_TOKEN=rota_... node worker.mjs
//
// Write your own handlers at the end of the file. A handler receives the payload, the job and a
// signal that tells it to stop. If it returns, the job is done. It may return snooze(seconds) to run
// again later, or discard(reason) to give up for good. If it throws, the job is retried by its retry
// policy.

import { hostname } from "node:os";
import { fileURLToPath } from "node:url";

export const snooze = (seconds) => ({ outcome: "snoozed", seconds });
export const discard = (error) => ({ outcome: "discarded", error });

export class Worker {
  #held = new Map();
  #stopping = new AbortController();

  constructor(handlers, options = {}) {
    this.handlers = handlers;
    this.url = options.url ?? process.env.ROTA_URL ?? "http://127.0.0.1:8080";
    this.token = options.token ?? process.env.ROTA_TOKEN ?? "";
    this.worker = options.worker ?? process.env.ROTA_WORKER ?? `node on ${hostname()} (${process.pid})`;
    this.queues = options.queues ?? (process.env.ROTA_QUEUES ?? "node").split(",");
    this.concurrency = options.concurrency ?? 4;
    this.leaseSeconds = options.leaseSeconds ?? 30;
    this.waitSeconds = options.waitSeconds ?? 20;
    this.jobsLeft = options.jobs ?? Number(process.env.ROTA_JOBS ?? Infinity); // stop after this many
    this.log = options.log ?? console.log;
  }

  // Work until stop() is called, or this many jobs are done.
  async run() {
    const heart = setInterval(() => this.#extend(), (this.leaseSeconds * 1000) / 3);
    try {
      while (!this.#stopping.signal.aborted && this.jobsLeft > 0) await this.#takeSome();
      await Promise.all([...this.#held.values()].map((held) => held.done));
    } finally {
      clearInterval(heart);
    }
  }

  // Lease nothing more; signal running handlers, and hand their jobs back unless they finish.
  stop() {
    this.#stopping.abort();
    for (const held of this.#held.values()) held.abort.abort("the worker stops");
  }

  async #takeSome() {
    const free = Math.min(this.concurrency - this.#held.size, this.jobsLeft);
    if (free <= 0) return Promise.race([...this.#held.values()].map((held) => held.done));
    const wish = {
      worker: this.worker,
      queues: this.queues,
      kinds: Object.keys(this.handlers),
      limit: free,
      concurrency: this.concurrency,
      lease_seconds: this.leaseSeconds,
      wait_seconds: this.waitSeconds,
    };
    const { items } = await this.#ask("leases", wish, this.#stopping.signal);
    this.jobsLeft -= items.length;
    for (const job of items) this.#begin(job);
  }

  #begin(job) {
    const held = { job, abort: new AbortController() };
    held.done = this.#runOne(held).finally(() => this.#held.delete(job.id));
    this.#held.set(job.id, held);
  }

  async #runOne({ job, abort }) {
    const outcome = await this.#attempt(job, abort.signal);
    const sent = { job_id: job.id, token: job.lease.token, ...outcome };
    const { items } = await this.#ask("leases/settle", { worker: this.worker, outcomes: [sent] });
    const [settled] = items;
    this.log(`job ${job.id}: ${settled.is_stale ? "the lease was lost" : settled.job.status}`);
  }

  async #attempt(job, signal) {
    const handler = this.handlers[job.kind];
    if (!handler) return { outcome: "failed", error: `No handler for type=${job.kind}` };
    try {
      const returned = await handler(job.payload, { job, signal });
      return returned?.outcome ? returned : { outcome: "succeeded" };
    } catch (error) {
      if (signal.aborted) return { outcome: "handed_back" };
      return { outcome: "failed", error: String(error?.stack ?? error).slice(0, 10_000) };
    }
  }

  async #extend() {
    if (!this.#held.size) return;
    const leases = [...this.#held.values()].map(({ job }) => ({ job_id: job.id, token: job.lease.token }));
    const order = { worker: this.worker, leases, lease_seconds: this.leaseSeconds };
    const { lost = [] } = await this.#ask("leases/extend", order).catch(() => ({}));
    for (const id of lost) this.#held.get(id)?.abort.abort("the lease was lost");
  }

  // Returns the answer; retries while the service is unreachable. Settling twice is harmless: the
  // second time is stale.
  async #ask(path, body, signal) {
    for (let pause = 500; ; pause = Math.min(pause * 2, 10_000)) {
      try {
        const answer = await fetch(`${this.url}/api/v1/${path}`, {
          method: "POST",
          headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" },
          body: JSON.stringify(body),
          signal,
        });
        if (answer.ok) return await answer.json();
        const problem = await answer.text();
        if (answer.status < 500 && answer.status !== 429) throw new Refused(problem);
        this.log(`the service cannot answer just now: ${problem}`);
      } catch (error) {
        if (error instanceof Refused) throw error;
        if (signal?.aborted) return { items: [] };
        this.log(`the service cannot be reached: ${error.cause?.message ?? error.message}`);
      }
      await new Promise((resume) => setTimeout(resume, pause));
    }
  }
}

class Refused extends Error {}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const worker = new Worker({
    "greet": async ({ name }) => console.log(`Hello, ${name}!`),
    "flaky": async (payload, { job }) => {
      if (job.attempt_count < 1) throw new Error("not yet");
    },
    "hopeless": async () => discard("the payload has no name"),
    "sleepy": async (payload, { job }) => (job.lease.token === 1 ? snooze(3600) : undefined),
  });
  process.on("SIGINT", () => worker.stop());
  process.on("SIGTERM", () => worker.stop());
  await worker.run();
}
