package driver

import (
	"fmt"
	"time"
)

// Hold asks for a producer, and a consumer of partition 0, that live until they are dropped.
type Hold struct {
	Bootstrap, Name, Topic string
	Settings               Settings
}

// Held are the two, of one client.
type Held interface {
	Send(records []Record, within time.Duration) ([]int64, error)
	Read(count int, within time.Duration) ([]Record, error)
	Drop()
}

type heldRequest struct {
	Name    string
	Records []Record
	Count   int
	Timeout Milliseconds `json:"timeout_ms"`
}

type holds struct {
	open func(Hold) (Held, error)
	held map[string]Held
}

// Holds is the part of the contract that is about them, for one client.
func Holds(open func(Hold) (Held, error)) Operations {
	holds := holds{open, map[string]Held{}}
	return Operations{
		"hold":      Of(holds.hold),
		"held_send": Of(holds.send),
		"held_read": Of(holds.read),
		"drop":      Of(holds.drop),
	}
}

func (holds *holds) hold(request Hold) (Answer, error) {
	held, err := holds.open(request)
	if err == nil {
		holds.held[request.Name] = held
	}
	return nil, err
}

func (holds *holds) send(request heldRequest) (Answer, error) {
	held, err := holds.find(request.Name)
	if err != nil {
		return nil, err
	}
	offsets, err := held.Send(request.Records, request.Timeout.Duration())
	return Answer{"offsets": offsets}, err
}

func (holds *holds) read(request heldRequest) (Answer, error) {
	held, err := holds.find(request.Name)
	if err != nil {
		return nil, err
	}
	records, err := held.Read(request.Count, request.Timeout.Duration())
	return Answer{"records": records}, err
}

func (holds *holds) drop(request heldRequest) (Answer, error) {
	held, err := holds.find(request.Name)
	if err == nil {
		held.Drop()
		delete(holds.held, request.Name)
	}
	return nil, err
}

func (holds *holds) find(name string) (Held, error) {
	if held, known := holds.held[name]; known {
		return held, nil
	}
	return nil, fmt.Errorf("nothing is held under %s", name)
}
