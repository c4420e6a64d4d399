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
	maxStreams = peer.DefaultMaxForward
	// mostTrunks is how many trunks of one node it serves at once: the one that it opens lanes
	// by, and some whose last lanes are under way.
	maxSessionsPerNode = 4
	// Where there is no secret a node's name is what it says: so those of one origin are
	// bounded, too, whatever their names, and their lanes. Many nodes may have one address.
	maxSessionsPerOrigin = 64
	maxStreamsPerOrigin  = 8 * mux.MaxStreams
	// mostLegTrunks is mostTrunks of those by which kept sockets go: their lanes stay for days,
	// and each step that replaces a secret begins another trunk.
	maxWebSocketSessionsPerNode = 16
	// mostLegBytes is what legs may keep beyond mux.FirstWindow each of what apps and clients do
	// not take, those to other nodes and those of others together. One node, and one origin, may
	// have half of it: with what each leg has that is 96 MiB.
	maxWebSocketBufferBytes = 64 << 20
	// mostTrunksOfAll is how many of all together it serves.
	maxSessions = 1024
)

// lanes are those to other nodes, and the trunks of others, for requests or for kept sockets:
// what stays takes no place of what is over soon, and what is said on it stands in nobody's way.
type muxPool struct {
	outgoing     *mux.SessionSet
	port         *peer.Port
	limits       muxLimits
	streamBudget *mux.Budget // of the lanes of others
	bufferBudget *mux.Budget // that lanes share, those of others and those to them; nil: they share none
	accepted     struct {
		sync.Mutex
		sessions map[*mux.Session]struct{}
		nodes    map[peerOrigin]*peerUsage
		origins  map[string]*peerUsage // all nodes of an origin
		total    int                   // trunks of all of them
		closing  bool                  // no more lanes are taken
		drained  chan struct{}         // closed once parted is set and there are no trunks
	}
}

// visitor is another node with trunks to this one, or an origin with trunks of some.
type peerUsage struct {
	budget   *mux.Budget
	bytes    *mux.Budget // nil: its lanes share none
	sessions int
}

// guest is whose a trunk is: a name, and the origin it came from, as the port tells them apart.
type peerOrigin struct{ node, origin string }

// laneBounds are those of the lanes and trunks of others.
type muxLimits struct {
	streamsPerNode, streamsPerOrigin int32 // lanes of one node, and of one origin
	sessionsPerNode                  int   // trunks of one node
	bufferBytes                      int32 // that the lanes of all share; zero: none
}

// newLanes returns those of requests.
func newRequestStreams(port *peer.Port) *muxPool {
	return newMuxPool(port, peer.Trunk, muxLimits{streamsPerNode: mux.MaxStreams, streamsPerOrigin: maxStreamsPerOrigin, sessionsPerNode: maxSessionsPerNode})
}

// newLegs returns those of kept sockets. All of them may be one node's.
func newWebSocketStreams(port *peer.Port) *muxPool {
	return newMuxPool(port, peer.Legs, muxLimits{streamsPerNode: mux.MaxWebSocketStreams, streamsPerOrigin: mux.MaxWebSocketStreams, sessionsPerNode: maxWebSocketSessionsPerNode, bufferBytes: maxWebSocketBufferBytes})
}

func newMuxPool(port *peer.Port, kind peer.Kind, b muxLimits) *muxPool {
	l := &muxPool{port: port, limits: b, streamBudget: mux.NewBudget(maxStreams, nil)}
	l.outgoing = mux.NewSessionSet(b.streamsPerNode, func(ctx context.Context, node string) (net.Conn, error) {
		c, err := port.Dial(ctx, node, kind)
		if refused, ok := errors.AsType[*peer.RefusedError](err); ok && refused.Code == peer.RefusedKind {
			return nil, fmt.Errorf("%w: %w", mux.ErrUnsupported, err)
		}
		if err != nil {
			return nil, err
		}
		return c, nil
	})
	if b.bufferBytes > 0 {
		l.bufferBudget = mux.NewBudget(b.bufferBytes, nil)
		l.outgoing.WithWindowPool(b.bufferBytes/2, l.bufferBudget)
	}
	l.accepted.sessions = make(map[*mux.Session]struct{})
	l.accepted.nodes, l.accepted.origins = make(map[peerOrigin]*peerUsage), make(map[string]*peerUsage)
	l.accepted.drained = make(chan struct{})
	return l
}

// serveTrunk serves the lanes that another node opens for requests, and returns when the last
// has ended.
func (n *Node) serveRequestSession(ctx context.Context, c *peer.Conn) {
	n.serveSession(ctx, n.router.requestStreams, c)
}

// serveLegs does so for those of kept sockets.
func (n *Node) serveWebSocketSession(ctx context.Context, c *peer.Conn) {
	n.serveSession(ctx, n.router.webSocketStreams, c)
}

func (n *Node) serveSession(ctx context.Context, pool *muxPool, c *peer.Conn) {
	pool.serve(c, func(l *mux.Stream) { n.serveStream(ctx, l, c) })
}

// serve has each lane of a trunk served by one, in a goroutine of its own.
func (l *muxPool) serve(c *peer.Conn, handle func(l *mux.Stream)) {
	peerFrom := peerOrigin{node: c.Node(), origin: l.port.Origin(c.RemoteAddr())}
	budget := l.acquireSession(peerFrom)
	if budget == nil {
		_ = c.Close() // it has more trunks than it needs; it has streams, too
		return
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	session := mux.NewServer(c, budget, func(lane *mux.Stream) bool {
		serving.Go(func() { handle(lane) })
		return true
	})
	l.add(session)
	defer l.releaseSession(peerFrom) // though lanes of it go on here: another may take its place
	defer l.remove(session)
	_ = session.Run() // the lanes say why it ended
}

// serveLane serves a lane; a bug there ends that lane only.
func (n *Node) serveStream(ctx context.Context, l *mux.Stream, c *peer.Conn) {
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
func (l *muxPool) acquireSession(peerFrom peerOrigin) *mux.Budget {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	place := a.origins[peerFrom.origin]
	if place == nil {
		place = l.newPeerUsage(l.limits.streamsPerOrigin, l.streamBudget, l.bufferBudget)
	}
	node := a.nodes[peerFrom]
	if node == nil {
		node = l.newPeerUsage(l.limits.streamsPerNode, place.budget, place.bytes)
	}
	if a.total == maxSessions || place.sessions == maxSessionsPerOrigin || node.sessions == l.limits.sessionsPerNode {
		return nil
	}
	a.total++
	place.sessions++
	node.sessions++
	a.origins[peerFrom.origin], a.nodes[peerFrom] = place, node
	return node.budget
}

// visitor returns one that may have so many lanes, and half of what all share, of others.
func (l *muxPool) newPeerUsage(limit int32, streams, bytes *mux.Budget) *peerUsage {
	v := &peerUsage{}
	if bytes != nil {
		v.bytes = mux.NewBudget(l.limits.bufferBytes/2, bytes)
	}
	v.budget = mux.NewBudget(limit, streams).WithWindowPool(v.bytes)
	return v
}

// leave ends that. The lanes that go on here count among those of all.
func (l *muxPool) releaseSession(peerFrom peerOrigin) {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	a.total--
	if place := a.origins[peerFrom.origin]; place.release() {
		delete(a.origins, peerFrom.origin)
	}
	if node := a.nodes[peerFrom]; node.release() {
		delete(a.nodes, peerFrom)
	}
}

// leaves counts a trunk less; true: there are no more.
func (v *peerUsage) release() bool {
	v.sessions--
	return v.sessions == 0
}

func (l *muxPool) add(t *mux.Session) {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	a.sessions[t] = struct{}{}
	if a.closing {
		t.GoAway(0) // before all else that it says
	}
}

func (l *muxPool) remove(t *mux.Session) {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	delete(a.sessions, t)
	if a.closing && len(a.sessions) == 0 {
		close(a.drained)
		a.drained = make(chan struct{}) // another may have come in before the port closes
	}
}

// open returns how many trunks of others are served.
func (l *muxPool) numSessions() int {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	return len(a.sessions)
}

// partTime is how long it may take to say that no more lanes are taken, and how long the
// other ends have to read the last words on those that were.
const goAwayTimeout = 100 * time.Millisecond

// part takes no more lanes while end ends those that there are. What is on its way by one
// that was not taken goes elsewhere. It returns when the other ends have ended their trunks,
// as they do with the last lane, or after a moment: what closing a trunk would lose are
// answers.
func (l *muxPool) shutdown(closeStreams func()) {
	a := &l.accepted
	a.Lock()
	a.closing = true
	all := slices.Collect(maps.Keys(a.sessions))
	none := a.drained
	a.Unlock()
	var sent sync.WaitGroup
	for _, t := range all {
		sent.Go(func() { t.GoAway(goAwayTimeout) })
	}
	sent.Wait()
	closeStreams()
	if len(all) == 0 {
		return
	}
	timer := time.NewTimer(goAwayTimeout)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	}
}

// partPeers parts from the lanes of others, and ends their streams with the last.
func (n *Node) partPeers() {
	n.router.requestStreams.shutdown(func() { n.router.webSocketStreams.shutdown(n.proxy.DismissPeers) })
}
