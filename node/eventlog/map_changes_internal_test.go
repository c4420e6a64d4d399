package eventlog

import (
	"testing"

	"shardway/ack"
	"shardway/event"
	"shardway/queue"
)

// What waited before a proposal and still does is held by the change, and so is what comes
// to wait until it is in force, gone again or not; what had gone before is not.
func TestMapChangeReportsQueuedRequests(t *testing.T) {
	waits := queue.Stats{Entered: 20, Waiting: 2}
	c := NewMapChangeRecorder(MapChangeOptions{Self: "a", Ring: event.NewRing(event.Options{Node: "a"}), Queue: func() queue.Stats { return waits }})
	s := ack.NewState()
	c.beginLocked(s.Committed(), s, 1)
	waits = queue.Stats{Entered: 25, Waiting: 1, Dequeued: 6}
	c.endLocked(2)
	cursor, err := c.o.Ring.Read("")
	if err != nil {
		t.Fatal(err)
	}
	all, _ := cursor.Next(8)
	if len(all) != 2 || all[0].Change.Queued != 0 || all[1].Kind != event.MapCommitted || all[1].Change.Queued != 7 {
		t.Errorf("told %+v, want 7 held by the change in force", all)
	}
}
