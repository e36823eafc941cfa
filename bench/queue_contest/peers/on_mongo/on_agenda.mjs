// Agenda, or Pulse, which descends from it: settings.package says which. Both lock one document after the other and
// look for more every few milliseconds; what they write is durable as Rota's is. Finished jobs are kept.
import { pathToFileURL } from 'node:url';
import { KIND, PAYLOAD, awaitGun, layIn, main, require, settings } from '../contestant.mjs';

const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const address = `${settings.url}&w=majority&journal=true`;
const options = {
  processEvery: settings.poll,
  maxConcurrency: settings.concurrent,
  defaultConcurrency: settings.concurrent,
};

async function open() {
  if (settings.package === 'pulse') {
    const { Pulse } = await load('@pulsecron/pulse');
    const pulse = new Pulse({ ...options, db: { address } });
    await new Promise((resolve) => pulse.once('ready', resolve));
    return pulse;
  }
  const { Agenda } = await load('agenda');
  const { MongoBackend } = await load('@agendajs/mongo-backend');
  const agenda = new Agenda({ ...options, backend: new MongoBackend({ address }) });
  await agenda.ready;
  return agenda;
}

await main({
  async prepare() {
    await open(); // makes the index
  },
  async connect() {
    this.agenda = await open();
    this.agenda.define(KIND, async () => {});
  },
  add(payload) {
    return this.agenda.now(KIND, payload);
  },
  bulk(count) {
    return layIn(count, () => this.add(PAYLOAD));
  },
  async work(tally) {
    const agenda = await open();
    agenda.define(KIND, async (job) => tally.count(job.attrs.data));
    await awaitGun();
    await agenda.start();
  },
});
