'use strict';
// Topics, the cluster, and groups seen from outside.

const { AssignerProtocol, ConfigResourceTypes } = require('kafkajs');
const { withAdmin } = require('./client');

const entries = (configs) => Object.entries(configs).map(([name, value]) => ({ name, value }));

async function create_topic(request) {
  const { topic, partitions: numPartitions, configs } = request;
  const wanted = { topic, numPartitions, replicationFactor: -1, configEntries: entries(configs) };
  await withAdmin(request, async (admin) => {
    // Its own wait for leaders gives up on a broker that has not heard of the topic yet.
    const created = await admin.createTopics({ topics: [wanted], waitForLeaders: false });
    if (!created) throw new Error(`${topic} exists`); // all that kafkajs makes of this error is `false`
    await untilLed(admin, topic);
  });
  return {};
}

// A broker may know a new topic before it leads it; kafkajs takes that for the end.
async function untilLed(admin, topic, tries = 50) {
  try {
    await admin.fetchTopicOffsets(topic);
  } catch (error) {
    if (error.type !== 'NOT_LEADER_FOR_PARTITION' || tries === 0) throw error;
    await new Promise((resolve) => setTimeout(resolve, 100));
    await untilLed(admin, topic, tries - 1);
  }
}

async function list_topics(request) {
  return { topics: await withAdmin(request, (admin) => admin.listTopics()) };
}

async function describe_topic(request) {
  const found = await withAdmin(request, (admin) => admin.fetchTopicMetadata({ topics: [request.topic] }));
  return { partitions: found.topics[0].partitions.length };
}

const resource = ({ topic }) => ({ type: ConfigResourceTypes.TOPIC, name: topic });

async function topic_configs(request) {
  const { resources } = await withAdmin(request, (admin) => admin.describeConfigs({ resources: [resource(request)] }));
  const configs = resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue]);
  return { configs: Object.fromEntries(configs) };
}

async function alter_topic_configs(request) {
  const changed = { ...resource(request), configEntries: entries(request.configs) };
  await withAdmin(request, (admin) => admin.alterConfigs({ resources: [changed] }));
  return {};
}

async function create_partitions(request) {
  const topicPartitions = [{ topic: request.topic, count: request.partitions }];
  await withAdmin(request, (admin) => admin.createPartitions({ topicPartitions }));
  return {};
}

async function delete_records(request) {
  const { topic, partition, before } = request;
  return withAdmin(request, async (admin) => {
    await admin.fetchTopicOffsets(topic); // or it does not find the leader: it looks before it has any metadata
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] });
    // It keeps the answer's low watermark to itself.
    const found = await admin.fetchTopicOffsets(topic);
    return { low_watermark: Number(found.find((each) => each.partition === partition).low) };
  });
}

async function delete_topic(request) {
  await withAdmin(request, (admin) => admin.deleteTopics({ topics: [request.topic] }));
  return {};
}

async function describe_cluster(request) {
  const { clusterId, brokers, controller } = await withAdmin(request, (admin) => admin.describeCluster());
  return { cluster_id: clusterId, brokers: brokers.map(({ nodeId, host, port }) => [nodeId, host, port]), controller };
}

async function list_groups(request) {
  const { groups } = await withAdmin(request, (admin) => admin.listGroups());
  return { groups: groups.map(({ groupId, protocolType }) => ({ group: groupId, protocol_type: protocolType })) };
}

async function describe_group(request) {
  const { groups } = await withAdmin(request, (admin) => admin.describeGroups([request.group]));
  const [{ state, protocolType, protocol, members }] = groups;
  return { state, protocol_type: protocolType, assignor: protocol, members: members.map(described) };
}

function described({ memberId, clientId, clientHost, memberAssignment }) {
  const { assignment } = AssignerProtocol.MemberAssignment.decode(memberAssignment) ?? { assignment: {} };
  return {
    member_id: memberId,
    client_id: clientId,
    host: clientHost,
    assignment: Object.entries(assignment).flatMap(([topic, numbers]) => numbers.map((number) => [topic, number])),
  };
}

async function group_offsets(request) {
  const found = await withAdmin(request, (admin) => admin.fetchOffsets({ groupId: request.group }));
  return {
    offsets: found.flatMap(({ topic, partitions }) =>
      partitions.map(({ partition, offset, metadata }) => ({ topic, partition, offset: Number(offset), metadata }))
    ),
  };
}

/** One topic at a time; each time the admin joins the group, commits as its only member and leaves. */
async function alter_group_offsets(request) {
  const topics = new Set(request.offsets.map(({ topic }) => topic));
  for (const topic of topics) {
    const partitions = request.offsets
      .filter((each) => each.topic === topic)
      .map(({ partition, offset }) => ({ partition, offset: String(offset) }));
    await withAdmin(request, (admin) => admin.setOffsets({ groupId: request.group, topic, partitions }));
  }
  return {};
}

async function delete_group(request) {
  await withAdmin(request, (admin) => admin.deleteGroups([request.group]));
  return {};
}

module.exports = {
  operations: {
    create_topic,
    list_topics,
    describe_topic,
    topic_configs,
    alter_topic_configs,
    create_partitions,
    delete_records,
    delete_topic,
    describe_cluster,
    list_groups,
    describe_group,
    group_offsets,
    alter_group_offsets,
    delete_group,
  },
};
