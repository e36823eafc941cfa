// BullMQ, one worker a process; finished jobs are removed, which is its quickest.
import { KIND, PAYLOAD, awaitGun, main, pieces, require, settings } from '../contestant.mjs';

const { Queue, Worker } = require('bullmq');
const connection = { path: settings.socket, maxRetriesPerRequest: null };
const QUEUE = 'bench';

await main({
  async connect() {
    this.queue = new Queue(QUEUE, { connection, defaultJobOptions: { removeOnComplete: true } });
    await this.queue.waitUntilReady();
  },
  add(payload) {
    return this.queue.add(KIND, payload);
  },
  async bulk(count) {
    for (const size of pieces(count))
      await this.queue.addBulk(Array.from({ length: size }, () => ({ name: KIND, data: PAYLOAD })));
  },
  async work(tally) {
    const worker = new Worker(QUEUE, async (job) => tally.count(job.data), {
      connection,
      concurrency: settings.concurrent,
      autorun: false,
    });
    await worker.waitUntilReady();
    await awaitGun();
    await worker.run();
  },
});
