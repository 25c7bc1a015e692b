package driver

import (
	"encoding/json"
	"time"
)

// Record is one to send or one that was read. Without a key it has a nil key, which is not the same as an empty one.
type Record struct {
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp *int64   `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
}

// Time is when the record was made; the zero time leaves that to the client.
func (record Record) Time() time.Time {
	if record.Timestamp == nil {
		return time.Time{}
	}
	return time.UnixMilli(*record.Timestamp)
}

// Read makes a record of what a client returned.
func Read(partition int32, offset int64, timestamp time.Time, key, value []byte, headers []Header) Record {
	if headers == nil {
		headers = []Header{}
	}
	ms := timestamp.UnixMilli()
	return Record{partition, offset, &ms, key, value, headers}
}

// Header is a pair in JSON.
type Header struct {
	Name  string
	Value []byte
}

func (header Header) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{header.Name, header.Value})
}

func (header *Header) UnmarshalJSON(pair []byte) error {
	return json.Unmarshal(pair, &[]any{&header.Name, &header.Value})
}

// Partition of a topic is a pair in JSON.
type Partition struct {
	Topic  string
	Number int32
}

func (partition Partition) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{partition.Topic, partition.Number})
}

func (partition *Partition) UnmarshalJSON(pair []byte) error {
	return json.Unmarshal(pair, &[]any{&partition.Topic, &partition.Number})
}

// Committed is what a group knows of a partition.
type Committed struct {
	Offset      int64  `json:"offset"`
	Metadata    string `json:"metadata"`
	LeaderEpoch int32  `json:"leader_epoch"`
}

// Offset is what a group knows, with the partition.
type Offset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed
}

// Milliseconds are how requests say how long.
type Milliseconds int64

func (ms Milliseconds) Duration() time.Duration { return time.Duration(ms) * time.Millisecond }

type Produce struct {
	Bootstrap, Topic  string
	Records           []Record
	Compression, Acks string
	Idempotence       bool
	Timeout           Milliseconds `json:"timeout_ms"`
}

// Start is where to begin reading; without any of them, at the beginning.
type Start struct {
	Offset, Timestamp *int64
	End               bool
}

type Consume struct {
	Bootstrap, Topic string
	Partitions       []int32
	Start            Start
	Reset            *string // nil: as the client does by itself
	Isolation        string
	Count            int
	Timeout          Milliseconds `json:"timeout_ms"`

	// Only of consume_paused: what is paused for the first `Count` records, and how many are read after that.
	Pause []int32
	After int
}

type ListOffsets struct {
	Bootstrap, Topic string
	Partitions       []int32
	Timestamps       []int64 // of offsets
	Timestamp        int64   // of list_offsets
}

// What stands for places among timestamps.
const (
	Earliest int64 = -2
	Latest   int64 = -1
)

// Topic is what the operations on topics are asked; each uses some of it.
type Topic struct {
	Bootstrap, Topic string
	Partitions       int32
	Configs          map[string]string
	Partition        int32
	Before           int64
}

type Cluster struct{ Bootstrap string }

// Group is what the operations on groups are asked; each uses some of it.
type Group struct {
	Bootstrap, Group string
	Offsets          []Offset
	Partitions       []Partition
}
