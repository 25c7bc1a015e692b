'use strict';
// Reading named partitions. kafkajs has no assign(): a group of one reads the whole topic, the partitions that are
// not wanted are paused, and the positions are kept here, because the group forgets them whenever it joins again.

const { randomUUID } = require('node:crypto');
const { CONSUMER, withAdmin } = require('./client');
const { EARLIEST, offsetsAt } = require('./offsets');
const { recordOf } = require('./records');

// So that nobody waits long for the member that a consumer was before it lost its connection.
const SESSION = { sessionTimeout: 2_000, heartbeatInterval: 300 };

class Reader {
  constructor(client, topic, options = {}) {
    this.topic = topic;
    this.active = [];
    this.positions = new Map();
    this.records = [];
    this.failure = null;
    this.notify = () => {};
    this.consumer = client.consumer({ groupId: `reader-${randomUUID()}`, ...SESSION, ...CONSUMER, ...options });
    this.consumer.on(this.consumer.events.GROUP_JOIN, () => this.takePlace());
    this.consumer.on(this.consumer.events.CRASH, ({ payload }) => payload.restart || this.fail(payload.error));
  }

  /** `fromBeginning` says where to go from an offset that is not there. */
  async open(positions, { active = [...positions.keys()], fromBeginning = false } = {}) {
    this.positions = positions;
    this.active = active;
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: [this.topic], fromBeginning });
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        this.positions.set(partition, Number(message.offset) + 1);
        this.records.push(recordOf(partition, message));
        this.notify();
      },
    });
  }

  takePlace() {
    this.consumer.pause([{ topic: this.topic }]);
    this.consumer.resume([{ topic: this.topic, partitions: this.active }]);
    for (const [partition, offset] of this.positions) {
      this.consumer.seek({ topic: this.topic, partition, offset: String(offset) });
    }
  }

  activate(partitions) {
    this.active = [...this.active, ...partitions];
    this.consumer.resume([{ topic: this.topic, partitions }]);
  }

  fail(error) {
    this.failure = error;
    this.notify();
  }

  /** The next ones; fewer if time runs out. */
  read(count, timeoutMs) {
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(alarm);
        this.notify = () => {};
        if (this.failure === null) resolve(this.records.splice(0, count));
        else reject(this.failure);
      };
      const alarm = setTimeout(end, timeoutMs);
      this.notify = () => {
        if (this.failure !== null || this.records.length >= count) end();
      };
      this.notify();
    });
  }

  close() {
    return this.consumer.disconnect();
  }
}

/** Where to begin, by partition. */
async function positionsOf(request, timestamp = EARLIEST) {
  const found = await withAdmin(request, (admin) => offsetsAt(admin, request, timestamp));
  return new Map(request.partitions.map((partition, index) => [partition, found[index]]));
}

module.exports = { Reader, positionsOf };
