package main

import (
	"net"
	"strconv"

	"drivers/driver"

	"github.com/IBM/sarama"
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

func onTopic(
	perform func(sarama.ClusterAdmin, sarama.Client, driver.Topic) (driver.Answer, error),
) driver.Operation {
	return withAdmin(func(request driver.Topic) string { return request.Bootstrap }, perform)
}

func createTopic(admin sarama.ClusterAdmin, _ sarama.Client, request driver.Topic) (driver.Answer, error) {
	detail := &sarama.TopicDetail{
		NumPartitions: request.Partitions, ReplicationFactor: -1, ConfigEntries: map[string]*string{},
	}
	for name, value := range request.Configs {
		detail.ConfigEntries[name] = &value
	}
	if err := admin.CreateTopic(request.Topic, detail, false); err != nil {
		return nil, err
	}
	return nil, untilKnown(sarama.ErrUnknownTopicOrPartition, func() error {
		_, err := describeTopic(admin, nil, request)
		return err
	})
}

func listTopics(admin sarama.ClusterAdmin, _ sarama.Client, _ driver.Topic) (driver.Answer, error) {
	topics, err := admin.ListTopics()
	names := []string{}
	for name := range topics {
		names = append(names, name)
	}
	return driver.Answer{"topics": names}, err
}

func describeTopic(admin sarama.ClusterAdmin, _ sarama.Client, request driver.Topic) (driver.Answer, error) {
	topics, err := admin.DescribeTopics([]string{request.Topic})
	if err != nil {
		return nil, err
	}
	if topics[0].Err != sarama.ErrNoError {
		return nil, topics[0].Err
	}
	return driver.Answer{"partitions": len(topics[0].Partitions)}, nil
}

func topicConfigs(admin sarama.ClusterAdmin, _ sarama.Client, request driver.Topic) (driver.Answer, error) {
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: request.Topic})
	configs := map[string]string{}
	for _, entry := range entries {
		configs[entry.Name] = entry.Value
	}
	return driver.Answer{"configs": configs}, err
}

func alterTopicConfigs(admin sarama.ClusterAdmin, _ sarama.Client, request driver.Topic) (driver.Answer, error) {
	changes := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range request.Configs {
		changes[name] = sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value,
		}
	}
	return nil, admin.IncrementalAlterConfig(sarama.TopicResource, request.Topic, changes, false)
}

func createPartitions(admin sarama.ClusterAdmin, _ sarama.Client, request driver.Topic) (driver.Answer, error) {
	return nil, admin.CreatePartitions(request.Topic, request.Partitions, nil, false)
}

// sarama keeps the low watermark in the answer to itself; it is where the partition begins now.
func deleteRecords(admin sarama.ClusterAdmin, client sarama.Client, request driver.Topic) (driver.Answer, error) {
	if err := admin.DeleteRecords(request.Topic, map[int32]int64{request.Partition: request.Before}); err != nil {
		return nil, err
	}
	beginning, err := client.GetOffset(request.Topic, request.Partition, sarama.OffsetOldest)
	return driver.Answer{"low_watermark": beginning}, err
}

func deleteTopic(admin sarama.ClusterAdmin, _ sarama.Client, request driver.Topic) (driver.Answer, error) {
	return nil, admin.DeleteTopic(request.Topic)
}

func describeCluster(admin sarama.ClusterAdmin, _ sarama.Client, _ driver.Topic) (driver.Answer, error) {
	found, controller, err := admin.DescribeCluster()
	if err != nil {
		return nil, err
	}
	brokers := []any{}
	for _, broker := range found {
		host, text, err := net.SplitHostPort(broker.Addr())
		if err != nil {
			return nil, err
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		brokers = append(brokers, []any{broker.ID(), host, port})
	}
	return driver.Answer{"cluster_id": nil, "brokers": brokers, "controller": controller}, nil
}
