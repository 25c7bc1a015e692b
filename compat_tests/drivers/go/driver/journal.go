package driver

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
)

// Journal is what a member of a group went through. Any goroutine may write it.
type Journal struct {
	lock        sync.Mutex
	assignment  map[Partition]bool
	records     []seen
	memberID    *string
	generation  *int32
	revocations int
	err         error
}

type seen struct {
	Partition
	offset int64
}

// Saw is called for every record.
func (journal *Journal) Saw(topic string, partition int32, offset int64) {
	journal.lock.Lock()
	defer journal.lock.Unlock()
	journal.records = append(journal.records, seen{Partition{topic, partition}, offset})
}

// Assigned adds to the assignment.
func (journal *Journal) Assigned(partitions map[string][]int32) {
	journal.lock.Lock()
	defer journal.lock.Unlock()
	if journal.assignment == nil {
		journal.assignment = map[Partition]bool{}
	}
	for _, partition := range Flat(partitions) {
		journal.assignment[partition] = true
	}
}

// Revoked takes from the assignment, and counts if there was something to take.
func (journal *Journal) Revoked(partitions map[string][]int32) {
	journal.lock.Lock()
	defer journal.lock.Unlock()
	revoked := Flat(partitions)
	for _, partition := range revoked {
		delete(journal.assignment, partition)
	}
	if len(revoked) > 0 {
		journal.revocations++
	}
}

// Identified is what the group calls the member now.
func (journal *Journal) Identified(memberID string, generation int32) {
	journal.lock.Lock()
	defer journal.lock.Unlock()
	if memberID != "" {
		journal.memberID, journal.generation = &memberID, &generation
	}
}

// Failed ends the member's story.
func (journal *Journal) Failed(err error) {
	journal.lock.Lock()
	defer journal.lock.Unlock()
	journal.err = err
}

// Left has no partitions any more, which is not a revocation.
func (journal *Journal) Left() {
	journal.lock.Lock()
	defer journal.lock.Unlock()
	journal.assignment = nil
}

// Say is for what a member only mentions.
func (journal *Journal) Say(what string, err error) {
	fmt.Fprintln(os.Stderr, what, err)
}

// State is the journal as the contract has it.
func (journal *Journal) State() Answer {
	journal.lock.Lock()
	defer journal.lock.Unlock()
	records := make([]any, 0, len(journal.records))
	for _, record := range journal.records {
		records = append(records, []any{record.Topic, record.Number, record.offset})
	}
	state := Answer{
		"assignment":  sorted(slices.Collect(maps.Keys(journal.assignment))),
		"records":     records,
		"member_id":   journal.memberID,
		"generation":  journal.generation,
		"revocations": journal.revocations,
		"error":       nil,
	}
	if journal.err != nil {
		state["error"] = fmt.Sprintf("%T: %v", journal.err, journal.err)
	}
	return state
}

func sorted(partitions []Partition) []Partition {
	slices.SortFunc(partitions, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number))
	})
	return append([]Partition{}, partitions...)
}

// Flat is an assignment as a list.
func Flat(partitions map[string][]int32) []Partition {
	found := []Partition{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			found = append(found, Partition{topic, number})
		}
	}
	return found
}
