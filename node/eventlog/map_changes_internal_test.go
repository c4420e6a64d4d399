package eventlog

import (
	"testing"

	"shardway/ack"
	"shardway/event"
	"shardway/queue"
)

// A map change counts the requests that were queued before its proposal and still are, and each request that is queued until the map is in
// force, even if it has left the queue. Requests that left the queue before the proposal do not count.
func TestMapChangeReportsQueuedRequests(t *testing.T) {
	waits := queue.Stats{Entered: 20, Waiting: 2}
	c := NewMapChangeRecorder(MapChangeOptions{Self: "a", Ring: event.NewRing(event.Options{Node: "a"}), Queue: func() queue.Stats { return waits }})
	s := ack.NewState()
	c.recordProposalLocked(s.Committed(), s, 1)
	waits = queue.Stats{Entered: 25, Waiting: 1, Dequeued: 6}
	c.recordCommitLocked(2)
	cursor, err := c.options.Ring.Read("")
	if err != nil {
		t.Fatal(err)
	}
	all, _ := cursor.Next(8)
	if len(all) != 2 || all[0].Change.Queued != 0 || all[1].Kind != event.MapCommitted || all[1].Change.Queued != 7 {
		t.Errorf("told %+v, want 7 held by the change in force", all)
	}
}
