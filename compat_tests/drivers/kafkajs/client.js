'use strict';
// kafkajs as its users set it up, from Kafka's names of settings.

const { Kafka } = require('kafkajs');
const assignors = require('./assignors');
const { Unsupported } = require('./json_lines');
const { LARGEST_BYTES } = require('./records');

const CONSUMER_SETTINGS = {
  'session.timeout.ms': 'sessionTimeout',
  'heartbeat.interval.ms': 'heartbeatInterval',
  'max.poll.interval.ms': 'rebalanceTimeout', // the longest that the others wait for a member
  'metadata.max.age.ms': 'metadataMaxAge',
};

const CONSUMER = {
  // A consumer that leaves waits for its last fetch, and heartbeats are sent between fetches only.
  maxWaitTimeInMs: 100,
  maxBytesPerPartition: LARGEST_BYTES,
  maxBytes: 4 * LARGEST_BYTES,
};

const ADMIN_MS = 5_000; // it tries again to delete what is not there, too

const kafka = (bootstrap, options = {}) => new Kafka({ brokers: bootstrap.split(","), ...options });

/** A consumer with Kafka's settings by their names; what kafkajs does not have is refused. */
function groupConsumer(bootstrap, groupId, settings) {
  const { 'client.id': clientId, 'partition.assignment.strategy': strategy, ...others } = settings;
  const options = Object.entries(others).map(([name, value]) => {
    if (!(name in CONSUMER_SETTINGS)) throw new Unsupported(`kafkajs has no ${name}`);
    return [CONSUMER_SETTINGS[name], value];
  });
  if (strategy !== undefined) {
    if (!(strategy in assignors)) throw new Unsupported(`kafkajs has no assignor ${strategy}`);
    options.push(['partitionAssigners', [assignors[strategy]]]);
  }
  return kafka(bootstrap, { clientId }).consumer({ groupId, ...CONSUMER, ...Object.fromEntries(options) });
}

/** kafkajs has no time after which it gives up, but a number of attempts with pauses that grow. */
function retriesWithin(timeoutMs) {
  const retry = { initialRetryTime: 100, maxRetryTime: 1_000, retries: 0 };
  for (let pause = retry.initialRetryTime, spent = pause; spent < timeoutMs; spent += pause) {
    retry.retries += 1;
    pause = Math.min(2 * pause, retry.maxRetryTime);
  }
  return retry;
}

async function withAdmin({ bootstrap, timeout_ms = ADMIN_MS }, action) {
  const admin = kafka(bootstrap, { retry: retriesWithin(timeout_ms) }).admin();
  await admin.connect();
  try {
    return await action(admin);
  } finally {
    await admin.disconnect();
  }
}

module.exports = { CONSUMER, groupConsumer, kafka, retriesWithin, withAdmin };
