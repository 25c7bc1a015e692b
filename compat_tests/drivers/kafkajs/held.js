'use strict';
// A producer and a consumer that live from one request to the next.

const { kafka, retriesWithin } = require('./client');
const { Unsupported } = require('./json_lines');
const { producer, send } = require('./producing');
const { Reader, positionsOf } = require('./reader');

// Outlasts a broker that restarts; the ten seconds that kafkajs tries by itself may not.
const PATIENCE_MS = 60_000;

const held = new Map();

async function hold({ bootstrap, name, topic, settings }) {
  if (Object.keys(settings).length > 0) throw new Unsupported('these take no settings');
  const client = kafka(bootstrap, { retry: retriesWithin(PATIENCE_MS) });
  const [sender, reader] = [producer(client, true), new Reader(client, topic)];
  await sender.connect();
  await reader.open(await positionsOf({ bootstrap, topic, partitions: [0] }));
  held.set(name, { topic, sender, reader });
  return {};
}

async function held_send({ name, records, timeout_ms }) {
  const { topic, sender } = held.get(name);
  let alarm;
  const late = new Promise((_, reject) => {
    alarm = setTimeout(() => reject(new Error(`not acknowledged within ${timeout_ms} ms`)), timeout_ms);
  });
  try {
    return await Promise.race([send(sender, topic, records), late]);
  } finally {
    clearTimeout(alarm);
  }
}

async function held_read({ name, count, timeout_ms }) {
  return { records: await held.get(name).reader.read(count, timeout_ms) };
}

async function drop({ name }) {
  const { sender, reader } = held.get(name);
  held.delete(name);
  await Promise.all([sender.disconnect(), reader.close()]);
  return {};
}

module.exports = { operations: { hold, held_send, held_read, drop } };
