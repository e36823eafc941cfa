// Graphile Worker. With settings.localQueue it fetches and completes in batches: its best; without, as delivered.
import { KIND, PAYLOAD, awaitGun, main, pieces, require, settings } from './contestant.mjs';

const { run, makeWorkerUtils, runMigrations, Logger } = require('graphile-worker');
const logger = new Logger(() => () => {});
const connectionString = settings.url;

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

await main({
  prepare() {
    return runMigrations({ connectionString, logger });
  },
  async connect() {
    this.utils = await makeWorkerUtils({ connectionString, logger });
  },
  add(payload) {
    return this.utils.addJob(KIND, payload);
  },
  async bulk(count) {
    for (const size of pieces(count))
      await this.utils.addJobs(Array.from({ length: size }, () => ({ identifier: KIND, payload: PAYLOAD })));
  },
  async work(tally) {
    await awaitGun();
    const handle = async (payload) => tally.count(payload);
    const runner = await run({ preset: makePreset(), logger, taskList: { [KIND]: handle } });
    await runner.promise;
  },
});
