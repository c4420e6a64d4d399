package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

const (
	// idleLook is how often a leader asks the nodes that are being emptied what is idle
	// there, and idleTimeout how long one has to tell. A round of what is idle takes some
	// tens of milliseconds.
	idleLook    = 250 * time.Millisecond
	idleTimeout = 2 * time.Second
)

// idleThere is what a node tells of its shards for which nothing runs at its app, neither
// requests nor sockets, by the map that it goes by.
type idleThere struct {
	Map    uint64           `json:"map"`
	Shards []shardmap.Shard `json:"shards"`
}

// idle returns the shards of this node for which nothing runs.
func (n *Node) idle() idleThere {
	m := n.router.state.Load().Committed()
	out := idleThere{Map: uint64(m.Epoch()), Shards: []shardmap.Shard{}}
	for s := range m.Shards(n.self) {
		if n.router.running.of(s) == 0 {
			out.Shards = append(out.Shards, s)
		}
	}
	return out
}

// watchIdle asks the nodes that are being emptied what is idle there, until ctx ends.
func (l *leadership) watchIdle(ctx context.Context) {
	t := l.n.pulse.Every(idleLook)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		s := l.n.fsm.state.Load()
		if s.Open() {
			continue // it goes by what it began with
		}
		for _, id := range slices.Sorted(maps.Keys(s.Policy().Emptying)) {
			l.askIdle(ctx, id)
		}
	}
}

func (l *leadership) askIdle(ctx context.Context, id shardmap.NodeID) {
	at := l.n.idle()
	if id != l.n.self {
		asking, cancel := context.WithTimeout(ctx, idleTimeout)
		defer cancel()
		at = idleThere{}
		if err := l.n.ask(asking, string(id), request{What: askIdle}, &at); err != nil {
			l.log.Debug().Err(err).Str("peer", string(id)).Msg("what is idle there is not told")
			return
		}
	}
	select {
	case l.messages <- ack.Idle{Node: id, Map: shardmap.Epoch(at.Map), Shards: at.Shards}:
	case <-l.done:
	case <-ctx.Done():
	}
}
