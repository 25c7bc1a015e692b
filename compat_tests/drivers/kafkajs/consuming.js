'use strict';
// Consumers of named partitions, for one request.

const { kafka, retriesWithin } = require('./client');
const { Unsupported } = require('./json_lines');
const { EARLIEST, LATEST } = require('./offsets');
const { Reader, positionsOf } = require('./reader');

async function withReader({ bootstrap, topic, timeout_ms, isolation }, action) {
  const readUncommitted = isolation !== 'read_committed';
  const reader = new Reader(kafka(bootstrap, { retry: retriesWithin(timeout_ms) }), topic, { readUncommitted });
  try {
    return await action(reader);
  } finally {
    await reader.close();
  }
}

async function consume(request) {
  const { start, partitions, count, reset, timeout_ms } = request;
  if (reset === 'none') throw new Unsupported('kafkajs always goes on somewhere from an offset that is not there');
  const positions =
    'offset' in start
      ? new Map(partitions.map((partition) => [partition, start.offset]))
      : await positionsOf(request, start.end ? LATEST : (start.timestamp ?? EARLIEST));
  return withReader(request, async (reader) => {
    await reader.open(positions, { fromBeginning: reset === 'earliest' });
    return { records: await reader.read(count, timeout_ms) };
  });
}

async function consume_paused(request) {
  const { partitions, pause, count, after, timeout_ms } = request;
  return withReader(request, async (reader) => {
    const active = partitions.filter((partition) => !pause.includes(partition));
    await reader.open(await positionsOf(request), { active });
    const records = await reader.read(count, timeout_ms);
    reader.activate(pause);
    return { records, after: await reader.read(after, timeout_ms) };
  });
}

module.exports = { operations: { consume, consume_paused } };
