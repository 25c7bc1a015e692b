package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"drivers/driver"

	"github.com/IBM/sarama"
)

// groupMember consumes in sessions, of which sarama starts a new one with every generation.
type groupMember struct {
	driver.Journal
	request driver.Join
	group   sarama.ConsumerGroup
	admin   sarama.ClusterAdmin
	staying context.Context
	leave   context.CancelFunc
	left    chan struct{}

	lock    sync.Mutex
	session sarama.ConsumerGroupSession

	committing sync.Mutex // sarama calls every partition's ConsumeClaim in a goroutine of its own
}

func openMember(request driver.Join) (driver.Member, error) {
	config, err := groupConfig(request.Settings)
	if err != nil {
		return nil, err
	}
	switch {
	case request.Pattern != "":
		return nil, driver.Unsupported("sarama subscribes to names")
	case request.Assign != nil:
		return openPlainMember(request, config)
	}
	brokers := strings.Split(request.Bootstrap, ",")
	admin, err := sarama.NewClusterAdmin(brokers, config)
	if err != nil {
		return nil, err
	}
	group, err := sarama.NewConsumerGroup(brokers, request.Group, config)
	if err != nil {
		return nil, err
	}
	member := &groupMember{request: request, group: group, admin: admin, left: make(chan struct{})}
	member.staying, member.leave = context.WithCancel(context.Background())
	go member.run()
	return member, nil
}

func (member *groupMember) run() {
	defer close(member.left)
	for member.staying.Err() == nil {
		err := member.group.Consume(member.staying, member.request.Topics, member)
		if errors.Is(err, sarama.ErrFencedInstancedId) {
			member.Failed(err)
			break
		}
		if err != nil {
			member.Say("joins again after", err)
			wait(member.staying, 100*time.Millisecond)
		}
	}
	if err := member.group.Close(); err != nil {
		member.Say("while leaving:", err)
	}
	if err := member.admin.Close(); err != nil {
		member.Say("while leaving:", err)
	}
	member.Left()
}

func wait(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}

// Setup is sarama's name for the beginning of a session.
func (member *groupMember) Setup(session sarama.ConsumerGroupSession) error {
	member.enter(session)
	return nil
}

func (member *groupMember) enter(session sarama.ConsumerGroupSession) {
	member.lock.Lock()
	defer member.lock.Unlock()
	member.session = session
}

func (member *groupMember) current() sarama.ConsumerGroupSession {
	member.lock.Lock()
	defer member.lock.Unlock()
	return member.session
}

// ConsumeClaim is called for every partition of the session and ends with it.
func (member *groupMember) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	partition := map[string][]int32{claim.Topic(): {claim.Partition()}}
	member.Assigned(partition)
	defer member.Revoked(partition)
	for message := range claim.Messages() {
		member.Saw(message.Topic, message.Partition, message.Offset)
		if member.request.Commits {
			session.MarkMessage(message, "")
			member.commitMarked(session)
		}
	}
	return nil
}

// Cleanup is called when all partitions of the session were given up here, but not yet to others.
func (member *groupMember) Cleanup(session sarama.ConsumerGroupSession) error {
	member.commitMarked(session) // once more what was refused before
	member.enter(nil)
	return nil
}

func (member *groupMember) commitMarked(session sarama.ConsumerGroupSession) {
	member.committing.Lock()
	defer member.committing.Unlock()
	session.Commit()
}

func (member *groupMember) State() driver.Answer {
	if session := member.current(); session != nil {
		member.Identified(session.MemberID(), session.GenerationID())
	}
	return member.Journal.State()
}

func (member *groupMember) Commit(offsets []driver.Offset, asynchronous bool) error {
	session := member.current()
	if session == nil {
		return errors.New("there is no session now")
	}
	for _, offset := range offsets {
		// One only goes forward, the other only back.
		session.MarkOffset(offset.Topic, offset.Partition, offset.Offset, offset.Metadata)
		session.ResetOffset(offset.Topic, offset.Partition, offset.Offset, offset.Metadata)
	}
	if asynchronous {
		go member.commitMarked(session)
	} else {
		member.commitMarked(session)
	}
	return nil
}

func (member *groupMember) Committed(partitions []driver.Partition) ([]*driver.Committed, error) {
	return committedIn(member.admin, member.request.Group, partitions)
}

func (member *groupMember) SeekToCommitted([]driver.Partition) error {
	return driver.Unsupported("sarama seeks only between sessions")
}

func (member *groupMember) Leave() {
	member.leave()
	<-member.left
}

func committedIn(
	admin sarama.ClusterAdmin, group string, partitions []driver.Partition,
) ([]*driver.Committed, error) {
	found, err := committedOffsets(admin, group)
	committed := make([]*driver.Committed, 0, len(partitions))
	for _, partition := range partitions {
		committed = append(committed, found[partition])
	}
	return committed, err
}
