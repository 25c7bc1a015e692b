'use strict';
// Where partitions begin and end, and where a time is in them.

const { withAdmin } = require('./client');

const EARLIEST = -2;
const LATEST = -1;

/** In the order of the partitions; the end of a partition whose records are all older. */
async function offsetsAt(admin, { topic, partitions }, timestamp) {
  const found = await admin.fetchTopicOffsetsByTimestamp(topic, timestamp);
  return partitions.map((wanted) => Number(found.find(({ partition }) => partition === wanted).offset));
}

async function list_offsets(request) {
  return { offsets: await withAdmin(request, (admin) => offsetsAt(admin, request, request.timestamp)) };
}

async function offsets(request) {
  return withAdmin(request, async (admin) => {
    const at = [];
    for (const timestamp of request.timestamps) {
      at.push((await offsetsAt(admin, request, timestamp))[0]);
    }
    const found = await admin.fetchTopicOffsets(request.topic);
    const { low, high } = found.find(({ partition }) => partition === request.partitions[0]);
    return { beginning: Number(low), end: Number(high), at };
  });
}

module.exports = { EARLIEST, LATEST, offsetsAt, operations: { offsets, list_offsets } };
