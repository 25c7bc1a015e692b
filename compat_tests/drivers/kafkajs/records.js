'use strict';
// Records between the drivers' contract and kafkajs, which knows headers as an object: name to value, or to values.

const LARGEST_BYTES = 16 * 1024 * 1024;

const toBytes = (text) => (text === null ? null : Buffer.from(text, 'base64'));
const toText = (data) => (data === null ? null : data.toString('base64'));

function messageOf(record) {
  return {
    partition: record.partition,
    key: toBytes(record.key),
    value: toBytes(record.value),
    headers: headersOf(record.headers ?? []),
    timestamp: record.timestamp === null ? undefined : String(record.timestamp),
  };
}

function headersOf(pairs) {
  const headers = {};
  for (const [name, value] of pairs) {
    headers[name] = [...(headers[name] ?? []), toBytes(value)];
  }
  return headers;
}

function recordOf(partition, message) {
  return {
    partition,
    offset: Number(message.offset),
    timestamp: Number(message.timestamp),
    key: toText(message.key),
    value: toText(message.value),
    headers: Object.entries(message.headers).flatMap(([name, values]) =>
      [values].flat().map((value) => [name, toText(value)])
    ),
  };
}

/** The offset of each record from the first offset of its partition, which is all that is told; none with acks=0. */
function offsetsOf(records, sent) {
  const next = new Map(sent.map(({ partition, baseOffset }) => [partition, Number(baseOffset)]));
  return records.map(({ partition }) => {
    if (!next.has(partition)) return null;
    const offset = next.get(partition);
    next.set(partition, offset + 1);
    return offset;
  });
}

module.exports = { LARGEST_BYTES, messageOf, recordOf, offsetsOf };
