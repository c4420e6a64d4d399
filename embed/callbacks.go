package embed

import (
	"context"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"shardway/event"
)

// callbackStopTimeout is how long Run waits for callbacks after the node has stopped.
const callbackStopTimeout = 5 * time.Second

// maxStackBytes is the maximum length of the stack of a panic in the log.
const maxStackBytes = 4 << 10

// Reasons of NodeChange.
const (
	ReasonLeft       = "left"       // the node has left the cluster
	ReasonFailed     = "failed"     // gossip no longer reaches the node
	ReasonRemoved    = "removed"    // the node was removed from the cluster
	ReasonRestarting = "restarting" // the node restarts in place, and its shards wait for it
	ReasonRestarted  = "restarted"  // the node is back after a restart in place
	ReasonMissed     = "missed"     // callbacks took so long that events were missed; the change is the result of all of them
)

// NodeChange is the argument of the callbacks NodeJoined, NodeRejoined and NodeLeft.
type NodeChange struct {
	// Node is the ID of the node. It can be the node of the callback itself.
	Node string
	// Reason is one of the reasons of this package. It is empty for a node that joined.
	Reason string
	// Time is the time at which the node of the callback observed the change, by its clock.
	Time time.Time
}

// Rebalance is the argument of the callbacks RebalanceStarted and RebalanceCompleted. It describes one change of the shard
// map that gives shards another owner. A rebalance in several steps consists of several changes.
type Rebalance struct {
	// Epoch is the epoch of the new map, and Base that of the map before it.
	Epoch, Base uint64
	// Reason is why the leader changes the map, such as "join", "drain" or "crashed".
	Reason string
	// Moved is the number of shards that get another owner. Gained and Released are the numbers of shards that the node of
	// the callback receives and gives away.
	Moved, Gained, Released int
	// Abandoned is set if another change replaced this one before it was in force. It is false in RebalanceStarted.
	Abandoned bool
	// Duration is the time since RebalanceStarted. It is zero in RebalanceStarted, and if the node observed only the end.
	Duration time.Duration
	// Time is the time at which the node of the callback observed the start or the end, by its clock.
	Time time.Time
}

// ClusterHealth is the argument of the callback ClusterHealthChanged.
type ClusterHealth struct {
	// State is initializing, single-node, stable, rebalancing, degraded or unavailable. Previous is the state before, or ""
	// for the first one.
	State, Previous string
	// Reason explains State in one sentence. It can be empty.
	Reason string
	// Time is the time at which the node of the callback observed the change, by its clock.
	Time time.Time
}

// clusterView is the current state of the cluster, as the node observes it. Its functions do not block.
type clusterView struct {
	presentNodes func() []string                     // the nodes whose processes run
	epochs       func() (proposed, committed uint64) // of the newest proposal and of the map in force
	health       func() (state string, isKnown bool) // of the cluster
}

// callbacks calls the callbacks of the app for the events of the node. The goroutine of run uses all fields.
type callbacks struct {
	config *Config
	view   clusterView
	log    zerolog.Logger

	present    map[string]bool // nodes whose processes run
	seen       map[string]bool // nodes that were present before, and were not removed since
	restarting map[string]bool // nodes that restart in place
	open       *Rebalance      // started and not completed; nil means none
	lastEpoch  uint64          // of the last completed rebalance
	health     string          // of the cluster; empty means unknown
}

// hasCallbacks reports whether the app has at least one callback.
func (c *Config) hasCallbacks() bool {
	return c.NodeJoined != nil || c.NodeRejoined != nil || c.NodeLeft != nil || c.RebalanceStarted != nil || c.RebalanceCompleted != nil || c.ClusterHealthChanged != nil
}

// newCallbacks returns the callbacks of config.
func newCallbacks(config *Config, view clusterView, log zerolog.Logger) *callbacks {
	return &callbacks{config: config, view: view, log: log, present: map[string]bool{}, seen: map[string]bool{}, restarting: map[string]bool{}}
}

// run calls the callbacks for the events of ring, in their order. After the end of ctx, it calls them for the events that
// are in the ring then, until abandoned is closed.
func (c *callbacks) run(ctx context.Context, abandoned <-chan struct{}, ring *event.Ring) {
	cursor, err := ring.Read("")
	if err != nil {
		panic(err) // an empty ID is valid
	}
	for {
		isEnding := ctx.Err() != nil // read before the events
		events, moreAvailable := cursor.Next(1)
		for i := range events {
			select {
			case <-abandoned:
				return
			default:
			}
			c.handle(ctx, cursor, &events[i])
		}
		if len(events) > 0 {
			continue
		}
		if isEnding {
			return
		}
		select {
		case <-moreAvailable:
		case <-ctx.Done():
		}
	}
}

// handle calls the callbacks for one event.
func (c *callbacks) handle(ctx context.Context, cursor *event.Cursor, e *event.Event) {
	switch e.Kind { //nolint:exhaustive // the other kinds have no callbacks
	case event.NodeJoined, event.NodeRejoined:
		delete(c.restarting, e.Node) // the restart took too long, otherwise NodeRestarted reports its end
		c.setPresent(ctx, e.Node, "", e.Time, e.Kind == event.NodeRejoined)
	case event.NodeRestarting:
		c.restarting[e.Node] = true
	case event.NodeRestarted:
		delete(c.restarting, e.Node)
		c.setPresent(ctx, e.Node, ReasonRestarted, e.Time, true)
	case event.NodeLeft:
		reason := ReasonLeft
		if c.restarting[e.Node] {
			reason = ReasonRestarting
		}
		c.setAbsent(ctx, e.Node, reason, e.Time)
	case event.NodeFailed:
		c.setAbsent(ctx, e.Node, ReasonFailed, e.Time)
	case event.NodeRemoved:
		c.setAbsent(ctx, e.Node, ReasonRemoved, e.Time)
		delete(c.seen, e.Node)
		delete(c.restarting, e.Node)
	case event.MapProposed:
		c.startRebalance(ctx, e)
	case event.MapAbandoned:
		if c.open != nil && c.open.Epoch == e.Epoch {
			c.completeRebalance(ctx, e.Time, true)
		}
	case event.MapCommitted:
		c.commitRebalance(ctx, e)
	case event.ClusterStateChanged:
		c.setHealth(ctx, e.State, e.Reason, e.Time)
	case event.Lost:
		c.skipToPresent(ctx, cursor, e.Time)
	}
}

// setPresent records that the process of a node runs, and calls a callback if it was not running.
func (c *callbacks) setPresent(ctx context.Context, node, reason string, at time.Time, hasReturned bool) {
	if c.present[node] {
		return
	}
	hasReturned = hasReturned || c.seen[node]
	c.present[node], c.seen[node] = true, true
	change := NodeChange{Node: node, Reason: reason, Time: at}
	if hasReturned {
		invoke(ctx, c, "NodeRejoined", c.config.NodeRejoined, change)
	} else {
		invoke(ctx, c, "NodeJoined", c.config.NodeJoined, change)
	}
}

// setAbsent records that the process of a node does not run, and calls the callback if it was running.
func (c *callbacks) setAbsent(ctx context.Context, node, reason string, at time.Time) {
	if !c.present[node] {
		return
	}
	delete(c.present, node)
	invoke(ctx, c, "NodeLeft", c.config.NodeLeft, NodeChange{Node: node, Reason: reason, Time: at})
}

// startRebalance records a proposed map. A map that moves no shards is no rebalance.
func (c *callbacks) startRebalance(ctx context.Context, e *event.Event) {
	if e.Change == nil || e.Change.Moved == 0 || e.Epoch <= c.lastEpoch || c.open != nil && c.open.Epoch == e.Epoch {
		return
	}
	if c.open != nil { // each start has an end
		c.completeRebalance(ctx, e.Time, true)
	}
	c.open = &Rebalance{
		Epoch: e.Epoch, Base: e.Change.Base, Reason: e.Reason, Moved: e.Change.Moved, Gained: e.Change.Gained, Released: e.Change.Released, Time: e.Time,
	}
	invoke(ctx, c, "RebalanceStarted", c.config.RebalanceStarted, *c.open)
}

// commitRebalance records a map in force. The node may not have observed its proposal.
func (c *callbacks) commitRebalance(ctx context.Context, e *event.Event) {
	if e.Change == nil || e.Change.FromLog || e.Epoch <= c.lastEpoch {
		return
	}
	if c.open != nil && c.open.Epoch != e.Epoch {
		c.completeRebalance(ctx, e.Time, true)
	}
	if c.open == nil {
		c.startRebalance(ctx, e)
	}
	if c.open != nil {
		c.completeRebalance(ctx, e.Time, false)
	}
}

// completeRebalance ends the open rebalance.
func (c *callbacks) completeRebalance(ctx context.Context, at time.Time, isAbandoned bool) {
	ended := *c.open
	ended.Abandoned, ended.Duration, ended.Time = isAbandoned, max(at.Sub(ended.Time), 0), at
	c.open, c.lastEpoch = nil, ended.Epoch
	invoke(ctx, c, "RebalanceCompleted", c.config.RebalanceCompleted, ended)
}

// setHealth records the state of the cluster.
func (c *callbacks) setHealth(ctx context.Context, state, reason string, at time.Time) {
	if state == c.health {
		return
	}
	change := ClusterHealth{State: state, Previous: c.health, Reason: reason, Time: at}
	c.health = state
	invoke(ctx, c, "ClusterHealthChanged", c.config.ClusterHealthChanged, change)
}

// skipToPresent is called if events were missed. It skips the events in the ring, and calls the callbacks for the
// differences between the last known state and the current one.
func (c *callbacks) skipToPresent(ctx context.Context, cursor *event.Cursor, at time.Time) {
	c.log.Warn().Msg("callbacks too slow, events missed")
	const batch = 256
	for events, _ := cursor.Next(batch); len(events) > 0; events, _ = cursor.Next(batch) {
	}
	clear(c.restarting)
	nodes := c.view.presentNodes()
	for _, node := range slices.Sorted(maps.Keys(c.present)) {
		if !slices.Contains(nodes, node) {
			c.setAbsent(ctx, node, ReasonMissed, at)
		}
	}
	for _, node := range nodes {
		c.setPresent(ctx, node, ReasonMissed, at, false)
	}
	proposed, committed := c.view.epochs()
	if isOver := c.open != nil && (proposed != c.open.Epoch || committed >= c.open.Epoch); isOver {
		c.completeRebalance(ctx, at, committed < c.open.Epoch)
	}
	c.lastEpoch = max(c.lastEpoch, committed)
	if state, isKnown := c.view.health(); isKnown {
		c.setHealth(ctx, state, "", at)
	}
}

// invoke calls a callback, unless it is nil. It recovers a panic and logs it.
func invoke[A any](ctx context.Context, c *callbacks, name string, callback func(context.Context, A), argument A) {
	if callback == nil {
		return
	}
	defer func() {
		if panicValue := recover(); panicValue != nil {
			stack := debug.Stack()
			c.log.Error().Str("callback", name).Interface("panic", panicValue).Bytes("stack", stack[:min(len(stack), maxStackBytes)]).Msg("callback panicked")
		}
	}()
	callback(ctx, argument)
}

// start starts the callbacks of the app. stop ends them, and waits for up to callbackStopTimeout until the running
// one has returned.
func (c *callbacks) start(ctx context.Context, ring *event.Ring) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	abandoned, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.run(ctx, abandoned, ring)
	}()
	return func() {
		cancel()
		timer := time.NewTimer(callbackStopTimeout)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
			close(abandoned)
			c.log.Warn().Msg("stopped before callback returned")
		}
	}
}
