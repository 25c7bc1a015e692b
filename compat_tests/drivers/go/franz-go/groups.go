package main

import (
	"context"
	"errors"

	"drivers/driver"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

var groupOperations = driver.Operations{
	"list_groups":          onGroup(listGroups),
	"describe_group":       onGroup(describeGroup),
	"group_offsets":        onGroup(groupOffsets),
	"alter_group_offsets":  onGroup(alterGroupOffsets),
	"delete_group_offsets": onGroup(deleteGroupOffsets),
	"delete_group":         onGroup(deleteGroup),
}

func onGroup(perform func(context.Context, *kadm.Client, driver.Group) (driver.Answer, error)) driver.Operation {
	return withAdmin(func(request driver.Group) string { return request.Bootstrap }, perform)
}

func listGroups(ctx context.Context, admin *kadm.Client, _ driver.Group) (driver.Answer, error) {
	groups := []driver.Answer{}
	for _, kind := range []string{"Classic", "Consumer"} { // the answer does not tell which is which
		listed, err := admin.ListGroupsByType(ctx, []string{kind})
		if err != nil {
			return nil, err
		}
		for _, group := range listed {
			groups = append(groups, driver.Answer{
				"group": group.Group, "protocol_type": group.ProtocolType, "state": group.State, "type": kind,
			})
		}
	}
	return driver.Answer{"groups": groups}, nil
}

// franz-go leaves it to its users to know which kind of group it is.
func describeGroup(ctx context.Context, admin *kadm.Client, request driver.Group) (driver.Answer, error) {
	described, err := admin.DescribeConsumerGroups(ctx, request.Group)
	if err != nil {
		return nil, err
	}
	group := described[request.Group]
	if errors.Is(group.Err, kerr.GroupIDNotFound) {
		return describeClassicGroup(ctx, admin, request)
	}
	members := []driver.Answer{}
	for _, member := range group.Members {
		members = append(members, driver.Answer{
			"member_id":         member.MemberID,
			"client_id":         member.ClientID,
			"host":              member.ClientHost,
			"group_instance_id": member.InstanceID,
			"assignment":        driver.Flat(listed(member.Assignment)),
		})
	}
	answer := driver.Answer{"state": group.State, "type": "Consumer", "assignor": group.AssignorName, "members": members}
	return answer, group.Err
}

func listed(partitions kadm.TopicsSet) map[string][]int32 {
	numbers := map[string][]int32{}
	for _, topic := range partitions.Sorted() {
		numbers[topic.Topic] = topic.Partitions
	}
	return numbers
}

func describeClassicGroup(ctx context.Context, admin *kadm.Client, request driver.Group) (driver.Answer, error) {
	described, err := admin.DescribeGroups(ctx, request.Group)
	if err != nil {
		return nil, err
	}
	group := described[request.Group]
	if group.Err != nil {
		return nil, group.Err
	}
	members := []driver.Answer{}
	for _, member := range group.Members {
		members = append(members, driver.Answer{
			"member_id":         member.MemberID,
			"client_id":         member.ClientID,
			"host":              member.ClientHost,
			"group_instance_id": member.InstanceID,
			"assignment":        assignmentOf(member),
		})
	}
	return driver.Answer{
		"state":         group.State,
		"type":          "Classic",
		"protocol_type": group.ProtocolType,
		"assignor":      group.Protocol,
		"members":       members,
	}, nil
}

func assignmentOf(member kadm.DescribedGroupMember) []driver.Partition {
	partitions := map[string][]int32{}
	if assigned, ok := member.Assigned.AsConsumer(); ok {
		for _, topic := range assigned.Topics {
			partitions[topic.Topic] = topic.Partitions
		}
	}
	return driver.Flat(partitions)
}

func groupOffsets(ctx context.Context, admin *kadm.Client, request driver.Group) (driver.Answer, error) {
	found, err := committedOffsets(ctx, admin, request.Group)
	offsets := []driver.Offset{}
	for partition, committed := range found {
		offsets = append(offsets, driver.Offset{Topic: partition.Topic, Partition: partition.Number, Committed: *committed})
	}
	return driver.Answer{"offsets": offsets}, err
}

func committedOffsets(
	ctx context.Context, admin *kadm.Client, group string,
) (map[driver.Partition]*driver.Committed, error) {
	fetched, err := admin.FetchOffsets(ctx, group)
	if err == nil {
		err = fetched.Error()
	}
	found := map[driver.Partition]*driver.Committed{}
	fetched.Each(func(offset kadm.OffsetResponse) {
		if offset.At >= 0 {
			partition := driver.Partition{Topic: offset.Topic, Number: offset.Partition}
			found[partition] = &driver.Committed{
				Offset: offset.At, Metadata: offset.Metadata, LeaderEpoch: offset.LeaderEpoch,
			}
		}
	})
	return found, err
}

func alterGroupOffsets(ctx context.Context, admin *kadm.Client, request driver.Group) (driver.Answer, error) {
	return nil, commitOffsets(ctx, admin, request.Group, request.Offsets)
}

func commitOffsets(ctx context.Context, admin *kadm.Client, group string, offsets []driver.Offset) error {
	var stated kadm.Offsets
	for _, offset := range offsets {
		stated.Add(kadm.Offset{
			Topic:       offset.Topic,
			Partition:   offset.Partition,
			At:          offset.Offset,
			LeaderEpoch: offset.LeaderEpoch,
			Metadata:    offset.Metadata,
		})
	}
	committed, err := admin.CommitOffsets(ctx, group, stated)
	if err != nil {
		return err
	}
	return committed.Error()
}

func deleteGroupOffsets(ctx context.Context, admin *kadm.Client, request driver.Group) (driver.Answer, error) {
	var partitions kadm.TopicsSet
	for _, partition := range request.Partitions {
		partitions.Add(partition.Topic, partition.Number)
	}
	deleted, err := admin.DeleteOffsets(ctx, request.Group, partitions)
	if err != nil {
		return nil, err
	}
	return nil, deleted.Error()
}

func deleteGroup(ctx context.Context, admin *kadm.Client, request driver.Group) (driver.Answer, error) {
	_, err := admin.DeleteGroup(ctx, request.Group)
	return nil, err
}
