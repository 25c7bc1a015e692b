package driver

import (
	"fmt"
	"time"
)

// Transactional asks for a producer with a transactional id, which has its identity from the broker when it is opened.
type Transactional struct {
	Bootstrap, Name string
	ID              string `json:"transactional_id"`
	Settings        Settings
}

// Producer is one of one client.
type Producer interface {
	Begin() error
	Send(topic string, records []Record, within time.Duration) ([]int64, error)
	SendOffsets(group string, offsets []Offset) error
	Commit() error
	Abort() error
	Drop()
}

// Copy asks for what is in one topic to be copied to another. Some transactions are aborted first, and made again.
type Copy struct {
	Transactional
	Source, Target, Group string
	Count                 int
	PerTransaction        int `json:"per_transaction"`
	AbortEvery            int `json:"abort_every"`
}

type transactionalRequest struct {
	Name, Topic, Group string
	Records            []Record
	Offsets            []Offset
	Timeout            Milliseconds `json:"timeout_ms"`
}

type transactionals struct {
	open func(Transactional) (Producer, error)
	held map[string]Producer
}

// Transactionals is the part of the contract that is about them, for one client.
func Transactionals(open func(Transactional) (Producer, error), copy func(Copy) (Answer, error)) Operations {
	held := transactionals{open, map[string]Producer{}}
	return Operations{
		"open_transactional": Of(held.openOne),
		"begin_transaction":  held.on(func(producer Producer, _ transactionalRequest) (Answer, error) { return nil, producer.Begin() }),
		"commit_transaction": held.on(func(producer Producer, _ transactionalRequest) (Answer, error) { return nil, producer.Commit() }),
		"abort_transaction":  held.on(func(producer Producer, _ transactionalRequest) (Answer, error) { return nil, producer.Abort() }),
		"transactional_send": held.on(func(producer Producer, request transactionalRequest) (Answer, error) {
			offsets, err := producer.Send(request.Topic, request.Records, request.Timeout.Duration())
			return Answer{"offsets": offsets}, err
		}),
		"send_offsets": held.on(func(producer Producer, request transactionalRequest) (Answer, error) {
			return nil, producer.SendOffsets(request.Group, request.Offsets)
		}),
		"drop_transactional": held.on(func(producer Producer, request transactionalRequest) (Answer, error) {
			producer.Drop()
			delete(held.held, request.Name)
			return nil, nil
		}),
		"copy": Of(copy),
	}
}

func (held *transactionals) openOne(request Transactional) (Answer, error) {
	producer, err := held.open(request)
	if err == nil {
		held.held[request.Name] = producer
	}
	return nil, err
}

func (held *transactionals) on(perform func(Producer, transactionalRequest) (Answer, error)) Operation {
	return Of(func(request transactionalRequest) (Answer, error) {
		producer, known := held.held[request.Name]
		if !known {
			return nil, fmt.Errorf("no transactional producer is called %s", request.Name)
		}
		return perform(producer, request)
	})
}
