package main

import (
	"drivers/driver"

	"github.com/IBM/sarama"
)

var groupOperations = driver.Operations{
	"list_groups":          onGroup(listGroups),
	"describe_group":       onGroup(describeGroup),
	"group_offsets":        onGroup(groupOffsets),
	"alter_group_offsets":  onGroup(alterGroupOffsets),
	"delete_group_offsets": onGroup(deleteGroupOffsets),
	"delete_group":         onGroup(deleteGroup),
}

func onGroup(
	perform func(sarama.ClusterAdmin, sarama.Client, driver.Group) (driver.Answer, error),
) driver.Operation {
	return withAdmin(func(request driver.Group) string { return request.Bootstrap }, perform)
}

func listGroups(admin sarama.ClusterAdmin, _ sarama.Client, _ driver.Group) (driver.Answer, error) {
	listed, err := admin.ListConsumerGroups()
	groups := []driver.Answer{}
	for group, protocolType := range listed {
		groups = append(groups, driver.Answer{"group": group, "protocol_type": protocolType})
	}
	return driver.Answer{"groups": groups}, err
}

func describeGroup(admin sarama.ClusterAdmin, _ sarama.Client, request driver.Group) (driver.Answer, error) {
	described, err := admin.DescribeConsumerGroups([]string{request.Group})
	if err != nil {
		return nil, err
	}
	group := described[0]
	if group.Err != sarama.ErrNoError {
		return nil, group.Err
	}
	members := []driver.Answer{}
	for id, member := range group.Members {
		assignment, err := member.GetMemberAssignment()
		if err != nil {
			return nil, err
		}
		members = append(members, driver.Answer{
			"member_id":         id,
			"client_id":         member.ClientId,
			"host":              member.ClientHost,
			"group_instance_id": member.GroupInstanceId,
			"assignment":        driver.Flat(assignment.Topics),
		})
	}
	return driver.Answer{
		"state":         group.State,
		"protocol_type": group.ProtocolType,
		"assignor":      group.Protocol,
		"members":       members,
	}, nil
}

func groupOffsets(admin sarama.ClusterAdmin, _ sarama.Client, request driver.Group) (driver.Answer, error) {
	found, err := committedOffsets(admin, request.Group)
	offsets := []driver.Offset{}
	for partition, committed := range found {
		offsets = append(offsets, driver.Offset{Topic: partition.Topic, Partition: partition.Number, Committed: *committed})
	}
	return driver.Answer{"offsets": offsets}, err
}

func committedOffsets(admin sarama.ClusterAdmin, group string) (map[driver.Partition]*driver.Committed, error) {
	response, err := admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return nil, err
	}
	if response.Err != sarama.ErrNoError {
		return nil, response.Err
	}
	found := map[driver.Partition]*driver.Committed{}
	for topic, partitions := range response.Blocks {
		for number, block := range partitions {
			if block.Err != sarama.ErrNoError {
				return nil, block.Err
			}
			if block.Offset >= 0 {
				found[driver.Partition{Topic: topic, Number: number}] = &driver.Committed{
					Offset: block.Offset, Metadata: block.Metadata, LeaderEpoch: block.LeaderEpoch,
				}
			}
		}
	}
	return found, nil
}

func alterGroupOffsets(admin sarama.ClusterAdmin, _ sarama.Client, request driver.Group) (driver.Answer, error) {
	stated := map[string]map[int32]sarama.OffsetAndMetadata{}
	for _, offset := range request.Offsets {
		if stated[offset.Topic] == nil {
			stated[offset.Topic] = map[int32]sarama.OffsetAndMetadata{}
		}
		stated[offset.Topic][offset.Partition] = sarama.OffsetAndMetadata{
			Offset: offset.Offset, Metadata: offset.Metadata, LeaderEpoch: offset.LeaderEpoch,
		}
	}
	response, err := admin.AlterConsumerGroupOffsets(request.Group, stated, nil)
	if err != nil {
		return nil, err
	}
	for _, partitions := range response.Errors {
		for _, refused := range partitions {
			if refused != sarama.ErrNoError {
				return nil, refused
			}
		}
	}
	return nil, nil
}

func deleteGroupOffsets(admin sarama.ClusterAdmin, _ sarama.Client, request driver.Group) (driver.Answer, error) {
	for _, partition := range request.Partitions {
		if err := admin.DeleteConsumerGroupOffset(request.Group, partition.Topic, partition.Number); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func deleteGroup(admin sarama.ClusterAdmin, _ sarama.Client, request driver.Group) (driver.Answer, error) {
	return nil, admin.DeleteConsumerGroup(request.Group)
}
