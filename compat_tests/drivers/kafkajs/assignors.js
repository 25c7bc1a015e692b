'use strict';
// kafkajs has one assignor, whose name no other client knows. To share a group with others its users write one of
// their own with the name of theirs: this is Kafka's range assignor.

const { AssignerProtocol, PartitionAssigners } = require('kafkajs');

const { MemberAssignment, MemberMetadata } = AssignerProtocol;
const VERSION = 0; // of the members' subscriptions and assignments

const range = ({ cluster }) => ({
  name: 'range',
  version: VERSION,

  protocol: ({ topics }) => ({ name: 'range', metadata: MemberMetadata.encode({ version: VERSION, topics }) }),

  async assign({ members }) {
    const assignments = new Map(members.map(({ memberId }) => [memberId, {}]));
    for (const [topic, subscribed] of subscribersByTopic(members)) {
      const partitions = cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => partitionId);
      for (const [memberId, share] of shares(subscribed, partitions)) {
        assignments.get(memberId)[topic] = share;
      }
    }
    return [...assignments].map(([memberId, assignment]) => ({
      memberId,
      memberAssignment: MemberAssignment.encode({ version: VERSION, assignment }),
    }));
  },
});

function subscribersByTopic(members) {
  const subscribers = new Map();
  for (const { memberId, memberMetadata } of members) {
    for (const topic of MemberMetadata.decode(memberMetadata).topics) {
      subscribers.set(topic, [...(subscribers.get(topic) ?? []), memberId]);
    }
  }
  return subscribers;
}

/** Consecutive partitions for each member; the first members have one more if it does not come out even. */
function shares(members, partitions) {
  const [ids, numbers] = [[...members].sort(), [...partitions].sort((one, other) => one - other)];
  const more = numbers.length % ids.length;
  return ids.map((id, index) => [id, numbers.splice(0, Math.floor(partitions.length / ids.length) + (index < more))]);
}

module.exports = { range, roundrobin: PartitionAssigners.roundRobin };
