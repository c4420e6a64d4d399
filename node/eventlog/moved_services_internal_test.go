package eventlog

import (
	"reflect"
	"testing"

	"shardway/ack"
	"shardway/event"
)

// With services, each list of moved shards contains shards of one service, with their numbers in the map and within the
// service.
func TestMovedShardsAreListedByService(t *testing.T) {
	t.Parallel()
	state, _, err := ack.NewState().Apply(1, 1, ack.EncodeBootstrap("c", 7, ack.DefaultTiming(), ack.ServiceSpec{Name: "chat", Shards: 4}, ack.ServiceSpec{Name: "search", Shards: 3}))
	if err != nil {
		t.Fatal(err)
	}
	lists := []event.MovedShards{{From: "a", To: "b", Shards: []uint16{1, 3, 4, 6}}, {To: "b", Shards: []uint16{5}}}
	want := []event.MovedShards{
		{From: "a", To: "b", Service: "chat", ServiceShards: []uint16{1, 3}, Shards: []uint16{1, 3}},
		{From: "a", To: "b", Service: "search", ServiceShards: []uint16{0, 2}, Shards: []uint16{4, 6}},
		{To: "b", Service: "search", ServiceShards: []uint16{1}, Shards: []uint16{5}},
	}
	if got := movedByService(lists, state); !reflect.DeepEqual(got, want) {
		t.Errorf("with services: %+v, want %+v", got, want)
	}
	if got := movedByService(lists, ack.NewState()); !reflect.DeepEqual(got, lists) {
		t.Errorf("without services: %+v", got)
	}
	outside := []event.MovedShards{{From: "a", Shards: []uint16{6, 9}}} // of a service that was removed
	want = []event.MovedShards{{From: "a", Service: "search", ServiceShards: []uint16{2}, Shards: []uint16{6}}, {From: "a", Shards: []uint16{9}}}
	if got := movedByService(outside, state); !reflect.DeepEqual(got, want) {
		t.Errorf("outside of all ranges: %+v, want %+v", got, want)
	}
}
