package eventlog

import (
	"sync"
	"time"

	"shardway/event"
)

// JoinOptions configures a JoinRecorder.
type JoinOptions struct {
	Self string
	Ring *event.Ring
	// IsGateway is set if the node owns no shards, so it has neither a lease nor a place in a map.
	IsGateway bool
	// ChecksApp is set if the node checks the health of its app.
	ChecksApp bool
	// Now returns the time of the clock of the node.
	Now func() time.Duration
}

// JoinRecorder records one event with the duration of each step in which this process joined its cluster. Its
// methods may be called from any goroutine. A nil JoinRecorder records nothing.
type JoinRecorder struct {
	options   JoinOptions
	startedAt time.Duration

	// mu protects the following fields.
	mu          sync.Mutex
	endedAt     time.Duration // of the last step
	join        event.Join
	ended       map[string]bool // steps that have ended
	isCompleted bool
}

// NewJoinRecorder returns a JoinRecorder for a process that starts now.
func NewJoinRecorder(options JoinOptions) *JoinRecorder {
	now := options.Now()
	return &JoinRecorder{options: options, startedAt: now, endedAt: now, ended: map[string]bool{}}
}

// End records the end of a step. Later calls for the same step have no effect, and neither do calls after the end
// of the join.
func (j *JoinRecorder) End(step string) {
	if j == nil || step == event.StepApp && !j.options.ChecksApp {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.isCompleted || j.ended[step] {
		return
	}
	now := max(j.options.Now(), j.endedAt)
	j.join.Steps = append(j.join.Steps, event.Phase{Name: step, MS: milliseconds(now - j.endedAt)})
	j.endedAt, j.ended[step] = now, true
	isPart := j.ended[event.StepLease] && j.ended[event.StepMap]
	if j.options.IsGateway {
		isPart = j.ended[event.StepLog]
	}
	if !isPart {
		return
	}
	j.isCompleted = true
	join := j.join
	join.MS = milliseconds(now - j.startedAt)
	j.options.Ring.Add(event.Event{Kind: event.JoinCompleted, Node: j.options.Self, Join: &join})
}

// milliseconds converts a duration to milliseconds with the precision of an event.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
