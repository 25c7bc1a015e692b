package driver

import (
	"fmt"
	"sync"
)

// Join asks for a consumer that is polled until it leaves.
type Join struct {
	Bootstrap, Member, Group string
	Settings                 Settings
	Commits                  bool // everything that was polled; members.py says when
	Topics                   []string
	Pattern                  string
	Assign                   []Partition
	BrokerMatches            bool `json:"broker_matches"`
}

// Member is a consumer of one client.
type Member interface {
	State() Answer
	Commit(offsets []Offset, asynchronous bool) error
	Committed(partitions []Partition) ([]*Committed, error)
	SeekToCommitted(partitions []Partition) error
	Leave()
}

type named struct {
	Member       string
	Members      []string
	Offsets      []Offset
	Asynchronous bool
	Partitions   []Partition
}

type members struct {
	open func(Join) (Member, error)
	held map[string]Member
}

// Members is the part of the contract that is about them, for one client.
func Members(open func(Join) (Member, error)) Operations {
	members := members{open, map[string]Member{}}
	return Operations{
		"join":              Of(members.join),
		"member_states":     Of(members.states),
		"leave":             Of(members.leave),
		"commit":            Of(members.commit),
		"committed":         Of(members.committed),
		"seek_to_committed": Of(members.seekToCommitted),
	}
}

func (members *members) join(request Join) (Answer, error) {
	member, err := members.open(request)
	if err == nil {
		members.held[request.Member] = member
	}
	return nil, err
}

func (members *members) states(request named) (Answer, error) {
	states := Answer{}
	for _, name := range request.Members {
		member, err := members.find(name)
		if err != nil {
			return nil, err
		}
		states[name] = member.State()
	}
	return Answer{"states": states}, nil
}

// All at once: one that leaves alone would give its partitions to the others.
func (members *members) leave(request named) (Answer, error) {
	var leaving sync.WaitGroup
	for _, name := range request.Members {
		member, err := members.find(name)
		if err != nil {
			return nil, err
		}
		leaving.Go(member.Leave)
	}
	leaving.Wait()
	answer, err := members.states(request)
	for _, name := range request.Members {
		delete(members.held, name)
	}
	return answer, err
}

func (members *members) commit(request named) (Answer, error) {
	member, err := members.find(request.Member)
	if err != nil {
		return nil, err
	}
	return nil, member.Commit(request.Offsets, request.Asynchronous)
}

func (members *members) committed(request named) (Answer, error) {
	member, err := members.find(request.Member)
	if err != nil {
		return nil, err
	}
	committed, err := member.Committed(request.Partitions)
	return Answer{"committed": committed}, err
}

func (members *members) seekToCommitted(request named) (Answer, error) {
	member, err := members.find(request.Member)
	if err != nil {
		return nil, err
	}
	return nil, member.SeekToCommitted(request.Partitions)
}

func (members *members) find(name string) (Member, error) {
	if member, known := members.held[name]; known {
		return member, nil
	}
	return nil, fmt.Errorf("nobody is called %s", name)
}
