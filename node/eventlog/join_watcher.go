package eventlog

import (
	"shardway/ack/join"
	"shardway/event"
)

// JoinWatcher records an event for each stage of a join request. Only one goroutine uses it.
type JoinWatcher struct {
	ring *event.Ring
	// known contains the last observed stages; nil means that nothing was observed.
	known map[string]join.Record
}

// NewJoinWatcher returns a JoinWatcher that writes to ring.
func NewJoinWatcher(ring *event.Ring) *JoinWatcher { return &JoinWatcher{ring: ring} }

// Observe records the stages that have begun since the previous call. The first call records nothing, because its stages
// began before this process started.
func (w *JoinWatcher) Observe(records join.Records) {
	isFirst := w.known == nil
	previous := w.known
	w.known = map[string]join.Record{}
	for _, record := range records.All() {
		w.known[record.Server] = record
		if isFirst {
			continue
		}
		seen := previous[record.Server]
		isSameRequest := seen.Ticket == record.Ticket
		begun := record.History
		for i, begin := range begun {
			if isSameRequest && i < len(seen.History) {
				continue
			}
			w.add(record, begin.Stage, durationOfStage(begun, i-1))
		}
	}
}

// add records the event of a stage. An imported member has no request, so it causes no event.
func (w *JoinWatcher) add(record join.Record, stage join.Stage, previousMS uint64) {
	kind := map[join.Stage]event.Kind{
		join.Requested: event.JoinRequested, join.Accepted: event.JoinAccepted, join.Refused: event.JoinRefused,
		join.Expired: event.JoinExpired, join.Synchronized: event.JoinSynchronized, join.Active: event.JoinActive,
	}[stage]
	if isImported := record.Boot == 0; isImported {
		return
	}
	e := event.Event{Kind: kind, Node: record.Node(), StageMS: previousMS}
	if stage == join.Accepted || stage == join.Refused {
		e.Reason = record.Reason
	}
	w.ring.Add(e)
}

// durationOfStage returns the duration of the stage with the given index in milliseconds. It is zero if the stage has
// not ended, or if the clocks of two leaders differ.
func durationOfStage(history []join.StageTime, index int) uint64 {
	if index < 0 || index+1 >= len(history) || history[index+1].UnixMilli < history[index].UnixMilli {
		return 0
	}
	return history[index+1].UnixMilli - history[index].UnixMilli
}
