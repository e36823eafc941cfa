// mongodb-cron at work, to be compared with: node mongodb_cron.cjs replay|poll
//
// Orders are JSON on standard input, documents in them the extended JSON of MongoDB. NODE_PATH
// names the folder of the packages.
'use strict';

const { EJSON } = require('bson');
const { MongoClient } = require('mongodb');
const { MongoCron } = require('mongodb-cron');

const encode = (document) => EJSON.serialize(document, { relaxed: false });
const decode = (document) => EJSON.deserialize(document, { relaxed: false });
const write = (text) => new Promise((done) => { process.stdout.write(text, done); });

// Tells for each case which documents onDocument was given, and which are left.
async function replay(database, orders) {
  const outcomes = {};
  for (const each of orders.cases) {
    outcomes[each.name] = await replayOne(database.collection(each.name), orders.now, each);
  }
  await write(JSON.stringify(outcomes));
}

// Time stands still but for what a handler takes, so that all dates can be foreseen. It ends when
// the cron is idle, or has had as many turns as it is to have.
async function replayOne(collection, start, told) {
  await collection.insertMany(told.documents.map(decode));
  const given = [];
  const readTime = Date.now;
  let now = Date.parse(start), cron;
  await new Promise((resolve, reject) => {
    cron = new MongoCron({
      collection,
      condition: told.condition,
      ...told.options,
      onDocument(document) {
        given.push(encode(document));
        now += told.work_ms || 0;
        if (told.fails) throw new Error('as told');
      },
      onIdle: resolve,
      onError: told.fails ? () => {} : reject,
    });
    const reschedule = cron.reschedule.bind(cron);
    cron.reschedule = async (document) => {
      await reschedule(document);
      if (given.length === told.turn_count) {
        cron.running = false;
        resolve();
      }
    };
    Date.now = () => now;
    cron.start();
  }).finally(() => {
    cron.running = false;
    Date.now = readTime;
  });
  const left = await collection.find({}).sort({ _id: 1 }).toArray();
  return { given, left: left.map(encode) };
}

// Polls until SIGTERM, and writes an entry for the start and for each document it is given.
async function poll(database, orders) {
  const note = (entry) => {
    const at = new Date().toISOString();
    return write(`${JSON.stringify({ at, process_id: process.pid, ...entry })}\n`);
  };
  await new Promise((resolve) => {
    const cron = new MongoCron({
      collection: database.collection(orders.collection),
      ...orders.options,
      onStart: () => note({}),
      onDocument: (document) => note({ job: document._id, due_at: document.cron.sleepUntil }),
      onError: (error) => note({ error: String(error) }),
      onStop: resolve,
    });
    process.on('SIGTERM', () => cron.stop());
    cron.start();
  });
}

async function main() {
  let text = '';
  for await (const chunk of process.stdin) text += chunk;
  const orders = JSON.parse(text);
  const client = await MongoClient.connect(orders.url);
  await { replay, poll }[process.argv[2]](client.db(), orders);
  await client.close();
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exitCode = 1;
});
