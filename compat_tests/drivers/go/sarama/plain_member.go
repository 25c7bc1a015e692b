package main

import (
	"drivers/driver"

	"github.com/IBM/sarama"
)

// plainMember reads partitions that it was given and commits for a group that it does not join.
type plainMember struct {
	driver.Journal
	request  driver.Join
	reader   *reader
	admin    sarama.ClusterAdmin
	offsets  sarama.OffsetManager
	managers map[driver.Partition]sarama.PartitionOffsetManager
	left     chan struct{}
}

func openPlainMember(request driver.Join, config *sarama.Config) (driver.Member, error) {
	if request.Commits {
		return nil, driver.Unsupported("sarama commits what it polled only in groups that it joins")
	}
	reader, err := openReader(request.Bootstrap, config)
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdminFromClient(reader.client)
	if err != nil {
		return nil, err
	}
	offsets, err := sarama.NewOffsetManagerFromClient(request.Group, reader.client)
	if err != nil {
		return nil, err
	}
	member := &plainMember{
		request:  request,
		reader:   reader,
		admin:    admin,
		offsets:  offsets,
		managers: map[driver.Partition]sarama.PartitionOffsetManager{},
		left:     make(chan struct{}),
	}
	for _, partition := range request.Assign {
		if err := member.assign(partition); err != nil {
			return nil, err
		}
	}
	go member.run()
	return member, nil
}

func (member *plainMember) assign(partition driver.Partition) error {
	manager, err := member.managerOf(partition)
	if err != nil {
		return err
	}
	next, _ := manager.NextOffset()
	member.Assigned(map[string][]int32{partition.Topic: {partition.Number}})
	return member.reader.start(partition, next)
}

func (member *plainMember) managerOf(partition driver.Partition) (sarama.PartitionOffsetManager, error) {
	if manager, known := member.managers[partition]; known {
		return manager, nil
	}
	manager, err := member.offsets.ManagePartition(partition.Topic, partition.Number)
	if err == nil {
		member.managers[partition] = manager
	}
	return manager, err
}

func (member *plainMember) run() {
	defer close(member.left)
	for {
		select {
		case message := <-member.reader.messages:
			member.Saw(message.Topic, message.Partition, message.Offset)
		case err := <-member.reader.errors:
			member.Say("reads again after", err)
		case <-member.reader.closed:
			return
		}
	}
}

func (member *plainMember) Commit(offsets []driver.Offset, asynchronous bool) error {
	for _, offset := range offsets {
		manager, err := member.managerOf(driver.Partition{Topic: offset.Topic, Number: offset.Partition})
		if err != nil {
			return err
		}
		// One only goes forward, the other only back.
		manager.MarkOffset(offset.Offset, offset.Metadata)
		manager.ResetOffset(offset.Offset, offset.Metadata)
	}
	if asynchronous {
		go member.offsets.Commit()
		return nil
	}
	member.offsets.Commit()
	return member.refusal()
}

// What was refused is known when Commit returns.
func (member *plainMember) refusal() error {
	for _, manager := range member.managers {
		select {
		case refused := <-manager.Errors():
			return refused.Err
		default:
		}
	}
	return nil
}

func (member *plainMember) Committed(partitions []driver.Partition) ([]*driver.Committed, error) {
	return committedIn(member.admin, member.request.Group, partitions)
}

func (member *plainMember) SeekToCommitted(partitions []driver.Partition) error {
	committed, err := member.Committed(partitions)
	if err != nil {
		return err
	}
	for index, partition := range partitions {
		if found := committed[index]; found != nil {
			if err := member.reader.seek(partition, found.Offset); err != nil {
				return err
			}
		}
	}
	return nil
}

func (member *plainMember) Leave() {
	for _, manager := range member.managers {
		manager.AsyncClose()
	}
	if err := member.offsets.Close(); err != nil {
		member.Say("while leaving:", err)
	}
	member.reader.close()
	<-member.left
	member.Left()
}
