'use strict';
// Members of groups: consumers that kafkajs itself runs from the moment they join. It commits after every batch, and
// before it gives up its partitions.

const { setTimeout } = require('node:timers/promises');
const { groupConsumer, withAdmin } = require('./client');
const { Unsupported, told, typeOf } = require('./json_lines');

const POLL_MS = 100;

class Member {
  constructor(request) {
    this.request = request;
    this.records = [];
    this.assignment = [];
    this.memberId = null;
    this.generation = null;
    this.revocations = 0;
    this.error = null;
    this.leaving = false;
    this.consumer = groupConsumer(request.bootstrap, request.group, request.settings);
    this.listen();
    this.started = this.start().catch((error) => this.end(error));
  }

  listen() {
    const { GROUP_JOIN, HEARTBEAT, COMMIT_OFFSETS, REBALANCING, CRASH } = this.consumer.events;
    this.consumer.on(GROUP_JOIN, ({ payload }) => {
      this.memberId = payload.memberId;
      this.assignment = partitionsIn(payload.memberAssignment);
    });
    for (const event of [HEARTBEAT, COMMIT_OFFSETS]) {
      this.consumer.on(event, ({ payload }) => {
        this.generation = payload.groupGenerationId;
      });
    }
    this.consumer.on(REBALANCING, () => this.giveUp());
    this.consumer.on(CRASH, ({ payload }) => (payload.restart ? this.giveUp() : this.end(payload.error)));
  }

  async start() {
    const { topics, pattern, commits } = this.request;
    await this.consumer.connect();
    await this.subscribe(topics ?? [new RegExp(pattern)]);
    await this.consumer.run({
      autoCommit: commits,
      eachMessage: async ({ topic, partition, message }) => {
        this.records.push([topic, partition, Number(message.offset)]);
      },
    });
  }

  /** kafkajs refuses a topic that is not there, also one that it has just made the broker create. */
  async subscribe(topics) {
    for (;;) {
      try {
        return await this.consumer.subscribe({ topics, fromBeginning: true });
      } catch (error) {
        if (this.leaving || typeOf(error) !== 'UNKNOWN_TOPIC_OR_PARTITION') throw error;
        await setTimeout(POLL_MS);
      }
    }
  }

  giveUp() {
    this.revocations += Number(this.assignment.length > 0);
    this.assignment = [];
  }

  end(error) {
    this.giveUp();
    this.error = `${error.name}: ${told(error)}`;
  }

  async leave() {
    this.leaving = true;
    await this.started;
    await this.consumer.disconnect();
    this.assignment = [];
  }

  /** Through an admin: a kafkajs consumer does not tell what it has committed. */
  async committed(partitions) {
    const topics = [...new Set(partitions.map(([topic]) => topic))];
    const found = await withAdmin(this.request, (admin) => admin.fetchOffsets({ groupId: this.request.group, topics }));
    const offsets = new Map(
      found.flatMap(({ topic, partitions: each }) => each.map((entry) => [`${topic} ${entry.partition}`, entry]))
    );
    return partitions.map(([topic, partition]) => {
      const { offset, metadata } = offsets.get(`${topic} ${partition}`);
      return Number(offset) < 0 ? null : { offset: Number(offset), metadata };
    });
  }

  snapshot() {
    const { assignment, records, memberId, generation, revocations, error } = this;
    return { assignment, records, member_id: memberId, generation, revocations, error };
  }
}

function partitionsIn(assignment) {
  return Object.keys(assignment)
    .sort()
    .flatMap((topic) => [...assignment[topic]].sort((one, other) => one - other).map((number) => [topic, number]));
}

const members = new Map();

async function join(request) {
  if (request.assign !== null) throw new Unsupported('kafkajs has no assign()');
  if (request.broker_matches) throw new Unsupported('kafkajs matches patterns itself');
  members.set(request.member, new Member(request));
  return {};
}

const states = (names) => Object.fromEntries(names.map((name) => [name, members.get(name).snapshot()]));

async function member_states(request) {
  return { states: states(request.members) };
}

async function leave(request) {
  await Promise.all(request.members.map((name) => members.get(name).leave()));
  const left = states(request.members);
  request.members.forEach((name) => members.delete(name));
  return { states: left };
}

async function commit({ member, offsets, asynchronous }) {
  const given = offsets.map(({ topic, partition, offset, metadata }) => ({
    topic,
    partition,
    offset: String(offset),
    metadata,
  }));
  const committing = members.get(member).consumer.commitOffsets(given);
  if (asynchronous) {
    committing.catch((error) => console.error(error));
  } else {
    await committing;
  }
  return {};
}

async function committed({ member, partitions }) {
  return { committed: await members.get(member).committed(partitions) };
}

async function seek_to_committed({ member, partitions }) {
  const { consumer } = members.get(member);
  const found = await members.get(member).committed(partitions);
  partitions.forEach(([topic, partition], index) => {
    consumer.seek({ topic, partition, offset: String(found[index].offset) });
  });
  return {};
}

module.exports = { operations: { join, member_states, leave, commit, committed, seek_to_committed } };
