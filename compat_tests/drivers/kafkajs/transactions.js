'use strict';
// Transactional producers that live from one request to the next, and copies by consume, transform, produce.

const { CONSUMER, kafka, retriesWithin } = require('./client');
const { Unsupported } = require('./json_lines');
const { producer } = require('./producing');
const { messageOf, offsetsOf, recordOf } = require('./records');

const PATIENCE_MS = 60_000;

const open = new Map();

/** kafkajs asks for its identity when it begins its first transaction. */
async function connected({ bootstrap, transactional_id: transactionalId, settings }) {
  const { 'transaction.timeout.ms': transactionTimeout, ...others } = settings;
  if (Object.keys(others).length > 0) throw new Unsupported(`kafkajs has no ${Object.keys(others)}`);
  const sender = producer(kafka(bootstrap, { retry: retriesWithin(PATIENCE_MS) }), true, {
    transactionalId,
    ...(transactionTimeout !== undefined && { transactionTimeout: Number(transactionTimeout) }),
  });
  await sender.connect();
  return sender;
}

async function open_transactional(request) {
  open.set(request.name, { sender: await connected(request) });
  return {};
}

async function begin_transaction({ name }) {
  const held = open.get(name);
  held.transaction = await held.sender.transaction();
  return {};
}

async function transactional_send({ name, topic, records, timeout_ms: timeout }) {
  const sent = await open.get(name).transaction.send({ topic, messages: records.map(messageOf), timeout });
  return { offsets: offsetsOf(records, sent) };
}

async function send_offsets({ name, group: consumerGroupId, offsets }) {
  const topics = offsets.map(({ topic, partition, offset }) => ({
    topic,
    partitions: [{ partition, offset: String(offset) }],
  }));
  await open.get(name).transaction.sendOffsets({ consumerGroupId, topics });
  return {};
}

async function commit_transaction({ name }) {
  await open.get(name).transaction.commit();
  return {};
}

async function abort_transaction({ name }) {
  await open.get(name).transaction.abort();
  return {};
}

async function drop_transactional({ name }) {
  await open.get(name).sender.disconnect();
  open.delete(name);
  return {};
}

async function copy(request) {
  const { bootstrap, source, group, count, per_transaction } = request;
  const sender = await connected(request);
  const consumer = kafka(bootstrap).consumer({ groupId: group, readUncommitted: false, ...CONSUMER });
  let [copied, transactions, fail] = [0, 0];
  const enough = new Promise((resolve, reject) => {
    fail = reject;
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.on(consumer.events.END_BATCH_PROCESS, () => copied >= count && resolve());
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [source], fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, heartbeat }) => {
      try {
        for (let first = 0; first < batch.messages.length; first += per_transaction) {
          const part = batch.messages.slice(first, first + per_transaction);
          transactions += 1;
          if (transactions % request.abort_every === 0) await (await inTransaction(sender, request, batch, part)).abort();
          await (await inTransaction(sender, request, batch, part)).commit();
          copied += part.length;
          await heartbeat();
        }
      } catch (error) {
        fail(error);
        throw error;
      }
    },
  });
  try {
    await enough;
  } finally {
    await consumer.disconnect();
    await sender.disconnect();
  }
  return { copied, transactions };
}

async function inTransaction(sender, { source: topic, target, group: consumerGroupId }, { partition }, messages) {
  const transaction = await sender.transaction();
  const records = messages.map((message) => ({ ...recordOf(partition, message), timestamp: null }));
  await transaction.send({ topic: target, messages: records.map(messageOf) });
  const offset = String(Number(messages.at(-1).offset) + 1);
  await transaction.sendOffsets({ consumerGroupId, topics: [{ topic, partitions: [{ partition, offset }] }] });
  return transaction;
}

module.exports = {
  operations: {
    open_transactional,
    begin_transaction,
    transactional_send,
    send_offsets,
    commit_transaction,
    abort_transaction,
    drop_transactional,
    copy,
  },
};
