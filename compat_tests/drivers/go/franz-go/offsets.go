package main

import (
	"context"

	"drivers/driver"

	"github.com/twmb/franz-go/pkg/kadm"
)

var offsetOperations = driver.Operations{
	"offsets":      onOffsets(offsets),
	"list_offsets": onOffsets(listOffsets),
}

func onOffsets(perform func(context.Context, *kadm.Client, driver.ListOffsets) (driver.Answer, error)) driver.Operation {
	return withAdmin(func(request driver.ListOffsets) string { return request.Bootstrap }, perform)
}

func offsets(ctx context.Context, admin *kadm.Client, request driver.ListOffsets) (driver.Answer, error) {
	request.Partitions = request.Partitions[:1]
	found := []*int64{}
	for _, timestamp := range append([]int64{driver.Earliest, driver.Latest}, request.Timestamps...) {
		listed, err := offsetsAt(ctx, admin, request, timestamp)
		if err != nil {
			return nil, err
		}
		found = append(found, listed...)
	}
	return driver.Answer{"beginning": found[0], "end": found[1], "at": found[2:]}, nil
}

func listOffsets(ctx context.Context, admin *kadm.Client, request driver.ListOffsets) (driver.Answer, error) {
	found, err := offsetsAt(ctx, admin, request, request.Timestamp)
	return driver.Answer{"offsets": found}, err
}

// The end of a partition stands for a time after its last record.
func offsetsAt(
	ctx context.Context, admin *kadm.Client, request driver.ListOffsets, timestamp int64,
) ([]*int64, error) {
	var listed kadm.ListedOffsets
	var err error
	switch timestamp {
	case driver.Earliest:
		listed, err = admin.ListStartOffsets(ctx, request.Topic)
	case driver.Latest:
		listed, err = admin.ListEndOffsets(ctx, request.Topic)
	default:
		listed, err = admin.ListOffsetsAfterMilli(ctx, timestamp, request.Topic)
	}
	found := []*int64{}
	for _, partition := range request.Partitions {
		if offset, known := listed.Lookup(request.Topic, partition); known && err == nil {
			found, err = append(found, &offset.Offset), offset.Err
		}
	}
	return found, err
}
