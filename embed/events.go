package embed

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"shardway/event"
)

// Event is an event that the node has recorded. docs/reference/events.md lists the kinds and describes the fields. Fields
// that do not apply to the kind have their zero values.
type Event struct {
	// ID is unique among the events of all processes, and Seq is the number of the event in its process, from 1.
	ID  string
	Seq uint64
	// Time is the time by the clock of this node.
	Time time.Time
	// Kind is the kind of the event, such as "node-joined". Later versions may add kinds.
	Kind string
	// Epoch is the epoch of the shard map that the event is about, or of the map in force. Term is the Raft term.
	Epoch, Term uint64
	// Node is the node that the event is about, and Instance the number of its app instance, from 1; zero means the node.
	Node     string
	Instance int
	// Reason is the cause. State is the new state of the cluster, for the kind "cluster-state".
	Reason, State string
	// Missed is the number of events that the loop has missed, for the kind "lost". Zero means unknown.
	Missed uint64

	event event.Event
}

// MarshalJSON returns the event in the form of GET /v1/events?shards=1, with all fields. It does not fail.
func (e Event) MarshalJSON() ([]byte, error) { return json.Marshal(&e.event) }

// Events yields the events of this node: first the last 1,024 ones, then each new one, in order. It ends when ctx ends or
// the loop stops, and not when the node stops. The loop never delays the node. If an iteration takes so long that more
// than 1,024 events occur, the loop receives an event of the kind "lost" instead of those that it has missed.
//
// Any number of goroutines may call Events. Each of them receives all events.
func (n *Node) Events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		cursor, err := n.process.Node().Events().Read("")
		if err != nil {
			panic(err) // an empty ID is valid
		}
		cursor.IncludeShards()
		for ctx.Err() == nil {
			events, moreAvailable := cursor.Next(1)
			for i := range events {
				if !yield(newEvent(&events[i])) {
					return
				}
			}
			select {
			case <-moreAvailable:
			case <-ctx.Done():
			}
		}
	}
}

// newEvent converts an event.
func newEvent(e *event.Event) Event {
	return Event{
		ID: e.ID, Seq: e.Seq, Time: e.Time, Kind: e.Kind.String(), Epoch: e.Epoch, Term: e.Term, Node: e.Node, Instance: e.Instance,
		Reason: e.Reason, State: e.State, Missed: e.Missed, event: *e,
	}
}
