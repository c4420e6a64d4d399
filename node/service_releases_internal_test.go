package node

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/event"
	"shardway/shardmap"
)

// The log and the events of failed releases name the service, and contain shards of one service only.
func TestFailedReleasesAreReportedByService(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var events []event.Event
	a := &agent{self: "a", log: zerolog.New(&log), recordEvent: func(e event.Event) { events = append(events, e) }}
	report := func(state *ack.State, shards ...shardmap.Shard) {
		var failed []ackagent.ReleaseEnd
		for _, shard := range shards {
			failed = append(failed, ackagent.ReleaseEnd{Shard: shard, Result: ackagent.ReleaseFailed, Reason: "full"})
		}
		for len(failed) > 0 {
			service, length := sameService(state, failed)
			a.reportReleasesOf(service, failed[:length])
			failed = failed[length:]
		}
	}
	report(stateWithServices(t), 0, 2, 3, 4)
	want := []event.Unreleased{
		{Count: 2, Service: "chat", ServiceShards: []uint32{0, 2}, Shards: []uint32{0, 2}},
		{Count: 2, Service: "search", ServiceShards: []uint32{0, 1}, Shards: []uint32{3, 4}},
	}
	for i := range want {
		if len(events) != len(want) || !reflect.DeepEqual(*events[i].Unreleased, want[i]) {
			t.Fatalf("events %+v", events)
		}
	}
	if text := log.String(); !strings.Contains(text, `"service":"chat","shards":"2 shards: 0, 2"`) || !strings.Contains(text, `"service":"search","shards":"2 shards: 0, 1"`) {
		t.Errorf("log: %s", text)
	}
	log.Reset()
	events = nil
	report(ack.NewState(), 0, 2, 3, 4)
	if len(events) != 1 || !reflect.DeepEqual(*events[0].Unreleased, event.Unreleased{Count: 4, Shards: []uint32{0, 2, 3, 4}}) || strings.Contains(log.String(), "service") {
		t.Errorf("without services: %+v, %s", events, log.String())
	}
}
