package main

import (
	"context"
	"errors"
	"time"

	"drivers/driver"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	pollFor     = 100 * time.Millisecond
	mostPerPoll = 500
)

// member polls in a goroutine of its own. A rebalance waits until what was polled is committed.
type member struct {
	driver.Journal
	request driver.Join
	client  *kgo.Client
	admin   *kadm.Client
	staying context.Context
	leave   context.CancelFunc
	left    chan struct{}
}

func openMember(request driver.Join) (driver.Member, error) {
	member := &member{request: request, left: make(chan struct{})}
	member.staying, member.leave = context.WithCancel(context.Background())
	var options []kgo.Opt
	var err error
	if request.Assign == nil {
		options, err = member.subscribing()
	} else {
		options, err = member.assigning()
	}
	if err != nil {
		return nil, err
	}
	if member.client, err = open(request.Bootstrap, options...); err != nil {
		return nil, err
	}
	member.admin = kadm.NewClient(member.client)
	go member.run()
	return member, nil
}

func (member *member) subscribing() ([]kgo.Opt, error) {
	options := []kgo.Opt{
		kgo.ConsumerGroup(member.request.Group),
		kgo.ConsumeTopics(member.request.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.MetadataMaxAge(500 * time.Millisecond), // new topics are found by looking for them
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			member.Assigned(partitions)
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
			if err := member.commitPolled(ctx, client); err != nil {
				member.Say("not committed before the partitions went:", err)
			}
			member.Revoked(partitions)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			member.Revoked(partitions)
		}),
	}
	if member.request.Pattern != "" { // the broker matches it with the consumer protocol, franz-go with the other
		options = append(options, kgo.ConsumeTopics(member.request.Pattern), kgo.ConsumeRegex())
	}
	set, err := groupSettings(member.request.Settings)
	return append(options, set...), err
}

// franz-go knows no group whose consumers choose their partitions; its admin client reads and commits for them.
func (member *member) assigning() ([]kgo.Opt, error) {
	if member.request.Commits {
		return nil, driver.Unsupported("franz-go commits what it polled only in groups that it joins")
	}
	client, err := open(member.request.Bootstrap)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	committed, err := committedOffsets(ctx, kadm.NewClient(client), member.request.Group)
	if err != nil {
		return nil, err
	}
	starts := map[string]map[int32]kgo.Offset{}
	for _, partition := range member.request.Assign {
		start := kgo.NewOffset().AtStart()
		if found := committed[partition]; found != nil {
			start = kgo.NewOffset().At(found.Offset)
		}
		if starts[partition.Topic] == nil {
			starts[partition.Topic] = map[int32]kgo.Offset{}
		}
		starts[partition.Topic][partition.Number] = start
		member.Assigned(map[string][]int32{partition.Topic: {partition.Number}})
	}
	return []kgo.Opt{kgo.ConsumePartitions(starts)}, nil
}

func (member *member) run() {
	defer close(member.left)
	for member.staying.Err() == nil {
		if err := member.poll(); err != nil {
			member.Failed(err)
			break
		}
	}
	member.client.CloseAllowingRebalance()
	member.Left()
}

func (member *member) poll() error {
	ctx, cancel := context.WithTimeout(member.staying, pollFor)
	defer cancel()
	fetches := member.client.PollRecords(ctx, mostPerPoll)
	defer member.client.AllowRebalance()
	for _, failed := range fetches.Errors() {
		if errors.Is(failed.Err, kerr.FencedInstanceID) {
			return failed.Err
		}
		if !errors.Is(failed.Err, context.DeadlineExceeded) && !errors.Is(failed.Err, context.Canceled) {
			member.Say("polls again after", failed.Err)
		}
	}
	fetches.EachRecord(func(record *kgo.Record) { member.Saw(record.Topic, record.Partition, record.Offset) })
	if err := member.commitPolled(context.Background(), member.client); err != nil {
		if errors.Is(err, kerr.FencedInstanceID) {
			return err
		}
		member.Say("commits again after", err)
	}
	return nil
}

// State asks for the identity now: an assignment comes before the poll that begins with it.
func (member *member) State() driver.Answer {
	member.Identified(member.client.GroupMetadata())
	return member.Journal.State()
}

func (member *member) commitPolled(ctx context.Context, client *kgo.Client) error {
	if !member.request.Commits {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return client.CommitUncommittedOffsets(ctx)
}

func (member *member) Commit(offsets []driver.Offset, asynchronous bool) error {
	if member.request.Assign != nil {
		return member.commitAsAdmin(offsets, asynchronous)
	}
	stated := map[string]map[int32]kgo.EpochOffset{}
	for _, offset := range offsets {
		if stated[offset.Topic] == nil {
			stated[offset.Topic] = map[int32]kgo.EpochOffset{}
		}
		stated[offset.Topic][offset.Partition] = kgo.EpochOffset{Epoch: offset.LeaderEpoch, Offset: offset.Offset}
	}
	ctx := context.Background()
	if asynchronous {
		member.client.CommitOffsets(ctx, stated, nil)
		return nil
	}
	var failed error
	member.client.CommitOffsetsSync(ctx, stated, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		failed = errors.Join(err, refusal(response))
	})
	return failed
}

func refusal(response *kmsg.OffsetCommitResponse) error {
	if response == nil {
		return nil
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func (member *member) commitAsAdmin(offsets []driver.Offset, asynchronous bool) error {
	commit := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return commitOffsets(ctx, member.admin, member.request.Group, offsets)
	}
	if !asynchronous {
		return commit()
	}
	go func() {
		if err := commit(); err != nil {
			member.Say("an asynchronous commit failed:", err)
		}
	}()
	return nil
}

func (member *member) Committed(partitions []driver.Partition) ([]*driver.Committed, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, err := committedOffsets(ctx, member.admin, member.request.Group)
	committed := make([]*driver.Committed, 0, len(partitions))
	for _, partition := range partitions {
		committed = append(committed, found[partition])
	}
	return committed, err
}

func (member *member) SeekToCommitted(partitions []driver.Partition) error {
	committed, err := member.Committed(partitions)
	if err != nil {
		return err
	}
	for index, partition := range partitions {
		if found := committed[index]; found != nil {
			member.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{
				partition.Topic: {partition.Number: {Epoch: found.LeaderEpoch, Offset: found.Offset}},
			})
		}
	}
	return nil
}

func (member *member) Leave() {
	member.leave()
	<-member.left
}
