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
	"shardway/peer/mux"
)

const (
	// mostLanes is how many lanes of others a node serves at once, all nodes together: as many
	// as streams.
	mostLanes = peer.DefaultMaxForward
	// mostTrunks is how many trunks of one node it serves at once: the one that it opens lanes
	// by, and some whose last lanes are under way.
	mostTrunks = 4
	// Where there is no secret a node's name is what it says: so those of one origin are
	// bounded, too, whatever their names, and their lanes. Many nodes may have one address.
	mostTrunksFrom = 64
	mostLanesFrom  = 8 * mux.MaxStreams
	// mostLegTrunks is mostTrunks of those by which kept sockets go: their lanes stay for days,
	// and each step that replaces a secret begins another trunk.
	mostLegTrunks = 16
	// mostLegBytes is what legs may keep beyond mux.FirstWindow each of what apps and clients do
	// not take, those to other nodes and those of others together. One node, and one origin, may
	// have half of it: with what each leg has that is 96 MiB.
	mostLegBytes = 64 << 20
	// mostTrunksOfAll is how many of all together it serves.
	mostTrunksOfAll = 1024
)

// lanes are those to other nodes, and the trunks of others, for requests or for kept sockets:
// what stays takes no place of what is over soon, and what is said on it stands in nobody's way.
type lanes struct {
	set      *mux.SessionSet
	port     *peer.Port
	bounds   laneBounds
	all      *mux.Budget // of the lanes of others
	bytes    *mux.Budget // that lanes share, those of others and those to them; nil: they share none
	accepted struct {
		sync.Mutex
		trunks map[*mux.Session]struct{}
		nodes  map[guest]*visitor
		places map[string]*visitor // all nodes of an origin
		guests int                 // trunks of all of them
		parted bool                // no more lanes are taken
		none   chan struct{}       // closed once parted is set and there are no trunks
	}
}

// visitor is another node with trunks to this one, or an origin with trunks of some.
type visitor struct {
	budget *mux.Budget
	bytes  *mux.Budget // nil: its lanes share none
	trunks int
}

// guest is whose a trunk is: a name, and the origin it came from, as the port tells them apart.
type guest struct{ node, place string }

// laneBounds are those of the lanes and trunks of others.
type laneBounds struct {
	lanes, from int32 // lanes of one node, and of one origin
	trunks      int   // trunks of one node
	bytes       int32 // that the lanes of all share; zero: none
}

// newLanes returns those of requests.
func newLanes(port *peer.Port) *lanes {
	return lanesBy(port, peer.Trunk, laneBounds{lanes: mux.MaxStreams, from: mostLanesFrom, trunks: mostTrunks})
}

// newLegs returns those of kept sockets. All of them may be one node's.
func newLegs(port *peer.Port) *lanes {
	return lanesBy(port, peer.Legs, laneBounds{lanes: mux.MaxWebSocketStreams, from: mux.MaxWebSocketStreams, trunks: mostLegTrunks, bytes: mostLegBytes})
}

func lanesBy(port *peer.Port, kind peer.Kind, b laneBounds) *lanes {
	l := &lanes{port: port, bounds: b, all: mux.NewBudget(mostLanes, nil)}
	l.set = mux.NewSessionSet(b.lanes, func(ctx context.Context, node string) (net.Conn, error) {
		c, err := port.Dial(ctx, node, kind)
		if refused, ok := errors.AsType[*peer.RefusedError](err); ok && refused.Code == peer.RefusedKind {
			return nil, fmt.Errorf("%w: %w", mux.ErrUnsupported, err)
		}
		if err != nil {
			return nil, err
		}
		return c, nil
	})
	if b.bytes > 0 {
		l.bytes = mux.NewBudget(b.bytes, nil)
		l.set.WithWindowPool(b.bytes/2, l.bytes)
	}
	l.accepted.trunks = make(map[*mux.Session]struct{})
	l.accepted.nodes, l.accepted.places = make(map[guest]*visitor), make(map[string]*visitor)
	l.accepted.none = make(chan struct{})
	return l
}

// serveTrunk serves the lanes that another node opens for requests, and returns when the last
// has ended.
func (n *Node) serveTrunk(ctx context.Context, c *peer.Conn) {
	n.serveAll(ctx, n.router.requestStreams, c)
}

// serveLegs does so for those of kept sockets.
func (n *Node) serveLegs(ctx context.Context, c *peer.Conn) {
	n.serveAll(ctx, n.router.webSocketStreams, c)
}

func (n *Node) serveAll(ctx context.Context, all *lanes, c *peer.Conn) {
	all.serve(c, func(l *mux.Stream) { n.serveLane(ctx, l, c) })
}

// serve has each lane of a trunk served by one, in a goroutine of its own.
func (l *lanes) serve(c *peer.Conn, one func(l *mux.Stream)) {
	g := guest{node: c.Node(), place: l.port.Origin(c.RemoteAddr())}
	from := l.enter(g)
	if from == nil {
		_ = c.Close() // it has more trunks than it needs; it has streams, too
		return
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	t := mux.NewServer(c, from, func(lane *mux.Stream) bool {
		serving.Go(func() { one(lane) })
		return true
	})
	l.add(t)
	defer l.leave(g) // though lanes of it go on here: another may take its place
	defer l.remove(t)
	_ = t.Run() // the lanes say why it ended
}

// serveLane serves a lane; a bug there ends that lane only.
func (n *Node) serveLane(ctx context.Context, l *mux.Stream, c *peer.Conn) {
	defer func() {
		if v := recover(); v != nil {
			n.log.Error().Str("peer", c.Node()).Any("panic", v).Bytes("stack", debug.Stack()).Msg("stream panicked, please report this")
			_ = l.SetLinger(0) // never fails
			_ = l.Close()      // it may be closed
		}
	}()
	n.proxy.ServePeer(ctx, l, c.Node())
}

// enter counts a trunk, until leave, and returns what its lanes count in; nil: its node, or its
// origin, has as many trunks as it may, or all have.
func (l *lanes) enter(g guest) *mux.Budget {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	place := a.places[g.place]
	if place == nil {
		place = l.visitor(l.bounds.from, l.all, l.bytes)
	}
	node := a.nodes[g]
	if node == nil {
		node = l.visitor(l.bounds.lanes, place.budget, place.bytes)
	}
	if a.guests == mostTrunksOfAll || place.trunks == mostTrunksFrom || node.trunks == l.bounds.trunks {
		return nil
	}
	a.guests++
	place.trunks++
	node.trunks++
	a.places[g.place], a.nodes[g] = place, node
	return node.budget
}

// visitor returns one that may have so many lanes, and half of what all share, of others.
func (l *lanes) visitor(most int32, lanes, bytes *mux.Budget) *visitor {
	v := &visitor{}
	if bytes != nil {
		v.bytes = mux.NewBudget(l.bounds.bytes/2, bytes)
	}
	v.budget = mux.NewBudget(most, lanes).WithWindowPool(v.bytes)
	return v
}

// leave ends that. The lanes that go on here count among those of all.
func (l *lanes) leave(g guest) {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	a.guests--
	if place := a.places[g.place]; place.leaves() {
		delete(a.places, g.place)
	}
	if node := a.nodes[g]; node.leaves() {
		delete(a.nodes, g)
	}
}

// leaves counts a trunk less; true: there are no more.
func (v *visitor) leaves() bool {
	v.trunks--
	return v.trunks == 0
}

func (l *lanes) add(t *mux.Session) {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	a.trunks[t] = struct{}{}
	if a.parted {
		t.GoAway(0) // before all else that it says
	}
}

func (l *lanes) remove(t *mux.Session) {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	delete(a.trunks, t)
	if a.parted && len(a.trunks) == 0 {
		close(a.none)
		a.none = make(chan struct{}) // another may have come in before the port closes
	}
}

// open returns how many trunks of others are served.
func (l *lanes) open() int {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	return len(a.trunks)
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
		told.Go(func() { t.GoAway(partTime) })
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

// partPeers parts from the lanes of others, and ends their streams with the last.
func (n *Node) partPeers() {
	n.router.requestStreams.part(func() { n.router.webSocketStreams.part(n.proxy.DismissPeers) })
}
