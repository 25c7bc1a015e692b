package main

import (
	"context"

	"drivers/driver"

	"github.com/twmb/franz-go/pkg/kadm"
)

var topicOperations = driver.Operations{
	"create_topic":        onTopic(createTopic),
	"list_topics":         onTopic(listTopics),
	"describe_topic":      onTopic(describeTopic),
	"topic_configs":       onTopic(topicConfigs),
	"alter_topic_configs": onTopic(alterTopicConfigs),
	"create_partitions":   onTopic(createPartitions),
	"delete_records":      onTopic(deleteRecords),
	"delete_topic":        onTopic(deleteTopic),
	"describe_cluster":    onTopic(describeCluster),
}

func onTopic(perform func(context.Context, *kadm.Client, driver.Topic) (driver.Answer, error)) driver.Operation {
	return withAdmin(func(request driver.Topic) string { return request.Bootstrap }, perform)
}

func createTopic(ctx context.Context, admin *kadm.Client, request driver.Topic) (driver.Answer, error) {
	configs := map[string]*string{}
	for name, value := range request.Configs {
		configs[name] = &value
	}
	_, err := admin.CreateTopic(ctx, request.Partitions, 1, configs, request.Topic)
	return nil, err
}

func listTopics(ctx context.Context, admin *kadm.Client, _ driver.Topic) (driver.Answer, error) {
	topics, err := admin.ListTopics(ctx)
	return driver.Answer{"topics": topics.Names()}, err
}

func describeTopic(ctx context.Context, admin *kadm.Client, request driver.Topic) (driver.Answer, error) {
	topics, err := admin.ListTopics(ctx, request.Topic)
	if err != nil {
		return nil, err
	}
	topic := topics[request.Topic]
	return driver.Answer{"partitions": len(topic.Partitions)}, topic.Err
}

func topicConfigs(ctx context.Context, admin *kadm.Client, request driver.Topic) (driver.Answer, error) {
	resources, err := admin.DescribeTopicConfigs(ctx, request.Topic)
	if err != nil {
		return nil, err
	}
	described, err := resources.On(request.Topic, nil)
	configs := map[string]*string{}
	for _, config := range described.Configs {
		configs[config.Key] = config.Value
	}
	return driver.Answer{"configs": configs}, err
}

func alterTopicConfigs(ctx context.Context, admin *kadm.Client, request driver.Topic) (driver.Answer, error) {
	var changes []kadm.AlterConfig
	for name, value := range request.Configs {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	resources, err := admin.AlterTopicConfigs(ctx, changes, request.Topic)
	if err != nil {
		return nil, err
	}
	altered, err := resources.On(request.Topic, nil)
	if err != nil {
		return nil, err
	}
	return nil, altered.Err
}

func createPartitions(ctx context.Context, admin *kadm.Client, request driver.Topic) (driver.Answer, error) {
	updated, err := admin.UpdatePartitions(ctx, int(request.Partitions), request.Topic)
	if err != nil {
		return nil, err
	}
	return nil, updated.Error()
}

func deleteRecords(ctx context.Context, admin *kadm.Client, request driver.Topic) (driver.Answer, error) {
	var before kadm.Offsets
	before.AddOffset(request.Topic, request.Partition, request.Before, -1)
	deleted, err := admin.DeleteRecords(ctx, before)
	if err != nil {
		return nil, err
	}
	partition, _ := deleted.Lookup(request.Topic, request.Partition)
	return driver.Answer{"low_watermark": partition.LowWatermark}, partition.Err
}

func deleteTopic(ctx context.Context, admin *kadm.Client, request driver.Topic) (driver.Answer, error) {
	_, err := admin.DeleteTopic(ctx, request.Topic)
	return nil, err
}

func describeCluster(ctx context.Context, admin *kadm.Client, _ driver.Topic) (driver.Answer, error) {
	found, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	brokers := []any{}
	for _, broker := range found.Brokers {
		brokers = append(brokers, []any{broker.NodeID, broker.Host, broker.Port})
	}
	return driver.Answer{"cluster_id": found.Cluster, "brokers": brokers, "controller": found.Controller}, nil
}
