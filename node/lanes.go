package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"shardway/peer"
	"shardway/peer/trunk"
)

const (
	// mostLanes is how many lanes of others a node serves at once, all nodes together: as many
	// as streams.
	mostLanes = peer.DefaultMaxForward
	// mostTrunks is how many trunks of one node it serves at once: the one that it opens lanes
	// by, and some whose last lanes are under way.
	mostTrunks = 4
)

// lanes are those to other nodes, and the trunks of others.
type lanes struct {
	set      *trunk.Set
	all      *trunk.Budget // of the lanes of others
	accepted struct {
		sync.Mutex
		trunks map[*trunk.Trunk]struct{}
		nodes  map[string]*visitor
		parted bool          // no more lanes are taken
		none   chan struct{} // closed once parted is set and there are no trunks
	}
}

// visitor is another node with trunks to this one.
type visitor struct {
	budget *trunk.Budget
	trunks int
}

func newLanes(port *peer.Port) *lanes {
	l := &lanes{all: trunk.NewBudget(mostLanes, nil)}
	l.set = trunk.NewSet(func(ctx context.Context, node string) (net.Conn, error) {
		c, err := port.Dial(ctx, node, peer.Trunk)
		if refused, ok := errors.AsType[*peer.RefusedError](err); ok && refused.Code == peer.RefusedKind {
			return nil, fmt.Errorf("%w: %w", trunk.ErrUnknown, err)
		}
		if err != nil {
			return nil, err
		}
		return c, nil
	})
	l.accepted.trunks, l.accepted.nodes = make(map[*trunk.Trunk]struct{}), make(map[string]*visitor)
	l.accepted.none = make(chan struct{})
	return l
}

// serveTrunk serves the lanes that another node opens, and returns when the last has ended.
func (n *Node) serveTrunk(ctx context.Context, c *peer.Conn) {
	all := n.router.lanes
	from := all.enter(c.Node())
	defer all.leave(c.Node())
	if from == nil {
		_ = c.Close() // it has more trunks than it needs; it has streams, too
		return
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	t := trunk.Accepted(c, from, func(l *trunk.Lane) bool {
		serving.Go(func() { n.serveLane(ctx, l, c) })
		return true
	})
	all.add(t)
	defer all.remove(t)
	_ = t.Run() // the lanes say why it ended
}

// serveLane serves a lane; a bug there ends that lane only.
func (n *Node) serveLane(ctx context.Context, l *trunk.Lane, c *peer.Conn) {
	defer func() {
		if v := recover(); v != nil {
			n.log.Error().Str("peer", c.Node()).Any("panic", v).Bytes("stack", debug.Stack()).Msg("lane panicked: please report this")
			_ = l.SetLinger(0) // never fails
			_ = l.Close()      // it may be closed
		}
	}()
	n.proxy.ServePeer(ctx, l, c.Node())
}

// enter counts a trunk of a node, until leave, and returns what its lanes count in; nil: it has
// as many trunks as it may.
func (l *lanes) enter(node string) *trunk.Budget {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	v := a.nodes[node]
	if v == nil {
		v = &visitor{budget: trunk.NewBudget(trunk.MaxLanes, l.all)}
		a.nodes[node] = v
	}
	if v.trunks++; v.trunks > mostTrunks {
		return nil
	}
	return v.budget
}

func (l *lanes) leave(node string) {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	a.nodes[node].trunks--
	// Of others a lane may have outlasted its trunks.
	maps.DeleteFunc(a.nodes, func(_ string, v *visitor) bool { return v.trunks == 0 && v.budget.Lent() == 0 })
}

func (l *lanes) add(t *trunk.Trunk) {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	a.trunks[t] = struct{}{}
	if a.parted {
		t.Last(0) // before all else that it says
	}
}

func (l *lanes) remove(t *trunk.Trunk) {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	delete(a.trunks, t)
	if a.parted && len(a.trunks) == 0 {
		close(a.none)
		a.none = make(chan struct{}) // another may have come in before the port closes
	}
}

// partTime is how long it may take to say that no more lanes are taken, and how long the
// other ends have to read the last words on those that were.
const partTime = 100 * time.Millisecond

// part takes no more lanes while end ends those that there are. What is on its way by one
// that was not taken goes elsewhere. It returns when the other ends have ended their trunks,
// as they do with the last lane, or after a moment: what closing a trunk would lose are
// answers.
func (l *lanes) part(end func()) {
	a := &l.accepted
	a.Lock()
	a.parted = true
	all := slices.Collect(maps.Keys(a.trunks))
	none := a.none
	a.Unlock()
	var told sync.WaitGroup
	for _, t := range all {
		told.Go(func() { t.Last(partTime) })
	}
	told.Wait()
	end()
	if len(all) == 0 {
		return
	}
	timer := time.NewTimer(partTime)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	}
}
