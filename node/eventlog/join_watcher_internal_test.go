package eventlog

import (
	"slices"
	"testing"

	"shardway/ack/join"
	"shardway/event"
)

// Each stage of a request is one event with the duration of the previous stage, also if several stages begin at once.
func TestJoinWatcherRecordsEachStage(t *testing.T) {
	ring := event.NewRing(event.Options{Node: "a"})
	watcher := NewJoinWatcher(ring)
	var records join.Records
	index := uint64(0)
	apply := func(changes ...join.Change) {
		index++
		records, _ = records.Apply(index, changes)
	}
	apply(join.Change{Kind: join.Import, Server: "a/1"})
	watcher.Observe(records)
	apply(join.Change{Kind: join.Request, Server: "b/1", Boot: 1, UnixMilli: 1000})
	watcher.Observe(records)
	apply(join.Change{Kind: join.Refuse, Server: "b/1", Ticket: 2, Reason: "unknown", UnixMilli: 1500})
	apply(join.Change{Kind: join.Accept, Server: "b/1", Ticket: 2, UnixMilli: 1700})
	watcher.Observe(records)
	watcher.Observe(records)
	cursor, err := ring.Read("")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := cursor.Next(10)
	kinds := []event.Kind{}
	for _, e := range got {
		kinds = append(kinds, e.Kind)
	}
	if want := []event.Kind{event.JoinRequested, event.JoinRefused, event.JoinAccepted}; !slices.Equal(kinds, want) {
		t.Fatalf("events %v, want %v", kinds, want)
	}
	if got[1].StageMS != 500 || got[2].StageMS != 200 || got[1].Node != "b" {
		t.Errorf("%+v", got)
	}
}
