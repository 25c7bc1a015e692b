'use strict';
// Producers, for one request or for longer.

const { CompressionTypes, Partitioners } = require('kafkajs');
const { kafka, retriesWithin } = require('./client');
const { messageOf, offsetsOf } = require('./records');

const COMPRESSIONS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

function producer(client, idempotent, options = {}) {
  return client.producer({
    createPartitioner: Partitioners.DefaultPartitioner, // named, or kafkajs warns that it was another one before
    idempotent,
    ...(idempotent && { maxInFlightRequests: 1 }),
    ...options,
  });
}

async function send(sender, topic, records, options = {}) {
  const sent = await sender.send({ topic, messages: records.map(messageOf), ...options });
  return { offsets: offsetsOf(records, sent) };
}

async function produce({ bootstrap, topic, records, compression, acks, idempotence, timeout_ms }) {
  const sender = producer(kafka(bootstrap, { retry: retriesWithin(timeout_ms) }), idempotence);
  await sender.connect();
  try {
    return await send(sender, topic, records, {
      acks: acks === 'all' ? -1 : Number(acks),
      compression: COMPRESSIONS[compression],
      timeout: timeout_ms,
    });
  } finally {
    await sender.disconnect();
  }
}

module.exports = { producer, send, operations: { produce } };
