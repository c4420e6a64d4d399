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
	// maxStreams is the largest number of multiplexed streams from all other nodes together. It is the
	// same as the limit of forwarded connections.
	maxStreams = peer.DefaultMaxForward
	// maxSessionsPerNode is the largest number of mux sessions from one node: the session on which it
	// opens streams, and some draining sessions.
	maxSessionsPerNode = 4
	// Without a cluster secret, a node can claim any name. So the sessions and streams of one origin
	// are limited, too. The limits are higher, because many nodes may share an address.
	maxSessionsPerOrigin = 64
	maxStreamsPerOrigin  = 8 * mux.MaxStreams
	// maxWebSocketSessionsPerNode is the limit for the sessions of resumable WebSockets. Their streams
	// stay open for days, and each step of a secret rotation starts another session.
	maxWebSocketSessionsPerNode = 16
	// maxWebSocketBufferBytes is the largest size of the data that apps and clients have not read, of
	// the streams of resumable WebSockets in both directions, in addition to mux.FirstWindow per
	// stream. One node or one origin may use half of it. With the first windows, that is 96 MiB.
	maxWebSocketBufferBytes = 64 << 20
	// maxSessions is the largest number of sessions from all other nodes together.
	maxSessions = 1024
)

// muxPool contains the multiplexed streams to other nodes, and serves the mux sessions that other nodes
// open. A node has one pool for requests and one for resumable WebSockets. So long-lived streams use
// no capacity of short requests, and their data does not delay them.
type muxPool struct {
	outgoing     *mux.SessionSet
	port         *peer.Port
	limits       muxLimits
	streamBudget *mux.Budget // limits the streams from other nodes
	bufferBudget *mux.Budget // buffer space shared by the streams in both directions; nil means no shared space
	accepted     struct {
		sync.Mutex
		sessions map[*mux.Session]struct{}
		nodes    map[peerOrigin]*peerUsage
		origins  map[string]*peerUsage // sum of all nodes of an origin
		total    int                   // number of all sessions
		closing  bool                  // no more streams are accepted
		drained  chan struct{}         // closed when closing is set and no session is left
	}
}

// peerUsage is the usage of one other node, or of all nodes of one origin.
type peerUsage struct {
	budget   *mux.Budget
	bytes    *mux.Budget // nil means no shared buffer space
	sessions int
}

// peerOrigin identifies the peer of a session: the claimed node name, and the origin of its address
// (see peer.Port.Origin).
type peerOrigin struct{ node, origin string }

// muxLimits limit the streams and sessions from other nodes.
type muxLimits struct {
	streamsPerNode, streamsPerOrigin int32 // lanes of one node, and of one origin
	sessionsPerNode                  int   // trunks of one node
	bufferBytes                      int32 // that the lanes of all share; zero: none
}

// newRequestStreams creates the pool for requests.
func newRequestStreams(port *peer.Port) *muxPool {
	return newMuxPool(port, peer.Trunk, muxLimits{streamsPerNode: mux.MaxStreams, streamsPerOrigin: maxStreamsPerOrigin, sessionsPerNode: maxSessionsPerNode})
}

// newWebSocketStreams creates the pool for resumable WebSockets. One node may use all streams.
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

// serveRequestSession serves the streams that another node opens for requests. It returns after the
// last stream has ended.
func (n *Node) serveRequestSession(ctx context.Context, c *peer.Conn) {
	n.serveSession(ctx, n.router.requestStreams, c)
}

// serveWebSocketSession serves the streams that another node opens for resumable WebSockets. It returns
// after the last stream has ended.
func (n *Node) serveWebSocketSession(ctx context.Context, c *peer.Conn) {
	n.serveSession(ctx, n.router.webSocketStreams, c)
}

func (n *Node) serveSession(ctx context.Context, pool *muxPool, c *peer.Conn) {
	pool.serve(c, func(l *mux.Stream) { n.serveStream(ctx, l, c) })
}

// serve calls handle for each stream of a session, in a separate goroutine. It returns after the last
// call. It closes c if the peer has too many sessions.
func (l *muxPool) serve(c *peer.Conn, handle func(l *mux.Stream)) {
	peerFrom := peerOrigin{node: c.Node(), origin: l.port.Origin(c.RemoteAddr())}
	budget := l.acquireSession(peerFrom)
	if budget == nil {
		_ = c.Close() // the peer has more sessions than it needs, and can use plain connections
		return
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	session := mux.NewServer(c, budget, func(lane *mux.Stream) bool {
		serving.Go(func() { handle(lane) })
		return true
	})
	l.add(session)
	defer l.releaseSession(peerFrom) // streams may still run here, but the peer may open another session
	defer l.remove(session)
	_ = session.Run() // the streams report the error
}

// serveStream serves one stream. A panic ends only that stream.
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

// acquireSession counts a session until releaseSession, and returns the budget of its streams. nil
// means that a limit of sessions is reached: of the node, of its origin or of all nodes.
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

// newPeerUsage returns a usage with up to limit streams. Its streams also count in the budget streams.
// They may use half of the shared buffer space, and count in bytes.
func (l *muxPool) newPeerUsage(limit int32, streams, bytes *mux.Budget) *peerUsage {
	v := &peerUsage{}
	if bytes != nil {
		v.bytes = mux.NewBudget(l.limits.bufferBytes/2, bytes)
	}
	v.budget = mux.NewBudget(limit, streams).WithWindowPool(v.bytes)
	return v
}

// releaseSession ends what acquireSession started. Streams that still run remain in the budget of all
// nodes.
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

// release counts one session less, and reports whether none is left.
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
		t.GoAway(0) // before any other frame
	}
}

func (l *muxPool) remove(t *mux.Session) {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	delete(a.sessions, t)
	if a.closing && len(a.sessions) == 0 {
		close(a.drained)
		a.drained = make(chan struct{}) // another session may arrive before the port closes
	}
}

// numSessions returns the number of sessions from other nodes.
func (l *muxPool) numSessions() int {
	a := &l.accepted
	a.Lock()
	defer a.Unlock()
	return len(a.sessions)
}

// goAwayTimeout bounds the sending of GOAWAY, and the time that the peers have to read the last frames
// of the streams.
const goAwayTimeout = 100 * time.Millisecond

// shutdown rejects new streams, then calls closeStreams, which must end the open ones. Peers retry the
// requests of rejected streams elsewhere. shutdown returns when the peers have closed their sessions,
// which they do after the last stream, or after goAwayTimeout. If this node closed the sessions,
// responses could be lost.
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
	n.router.requestStreams.shutdown(func() { n.router.webSocketStreams.shutdown(n.proxy.ClosePeers) })
}
