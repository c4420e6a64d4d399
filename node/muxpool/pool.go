package muxpool

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

	"github.com/rs/zerolog"

	"shardway/peer"
	"shardway/peer/mux"
)

const (
	// maxStreams is the maximum number of multiplexed streams from all other nodes together. It
	// equals the limit of forwarded connections.
	maxStreams = peer.DefaultMaxForwardStreams
	// maxSessionsPerNode is the maximum number of mux sessions from one node: the session on which
	// it opens streams, and some draining sessions.
	maxSessionsPerNode = 4
	// Without a cluster secret, a node can claim any name, so the sessions and streams of one
	// origin are also limited. The limits are higher, because many nodes may share an address.
	maxSessionsPerOrigin = 64
	maxStreamsPerOrigin  = 8 * mux.MaxStreams
	// maxWebSocketSessionsPerNode is the limit for the sessions of resumable WebSockets. Their streams
	// stay open for days, and each step of a secret rotation starts another session.
	maxWebSocketSessionsPerNode = 16
	// maxWebSocketBufferBytes is the maximum amount of data that the streams of resumable
	// WebSockets buffer in both directions until apps and clients read it, in addition to
	// mux.FirstWindow per stream. One node or one origin may use half of it. Including the first
	// windows, that is 96 MiB.
	maxWebSocketBufferBytes = 64 << 20
	// maxSessions is the maximum number of sessions from all other nodes together.
	maxSessions = 1024
)

// Pool contains the multiplexed streams to other nodes, and serves the mux sessions that other
// nodes open. A node has one pool for requests and one for resumable WebSockets, so long-lived
// streams use no capacity of short requests, and their data does not delay them.
type Pool struct {
	// Outgoing contains the sessions that this node has opened.
	Outgoing     *mux.SessionSet
	port         *peer.Port
	limits       limits
	streamBudget *mux.Budget // limits the streams from other nodes
	bufferBudget *mux.Budget // buffer space shared by the streams in both directions; nil means no shared space
	// accepted contains the sessions that other nodes have opened. Its mutex protects its fields.
	accepted struct {
		sync.Mutex
		sessions       map[*mux.Session]struct{}
		nodes          map[peerOrigin]*peerUsage
		origins        map[string]*peerUsage // sum of all nodes of an origin
		total          int                   // number of sessions that acquireSession has counted
		isShuttingDown bool                  // no more streams are accepted
		drained        chan struct{}         // closed when the pool shuts down and no session is left
	}
}

// peerUsage is the usage of one other node, or of all nodes of one origin.
type peerUsage struct {
	streams  *mux.Budget // limits the streams
	bytes    *mux.Budget // limits the shared buffer space; nil means no shared space
	sessions int         // number of open sessions
}

// peerOrigin identifies the peer of a session: the claimed node name, and the origin of its address
// (see peer.Port.Origin).
type peerOrigin struct{ node, origin string }

// limits limit the streams and sessions from other nodes.
type limits struct {
	streamsPerNode, streamsPerOrigin int32 // streams of one node, and of one origin
	sessionsPerNode                  int   // sessions of one node
	bufferBytes                      int32 // shared by the streams of all nodes; zero means no shared space
}

// NewForRequests creates the pool for requests.
func NewForRequests(port *peer.Port) *Pool {
	return newPool(port, peer.RequestSession, limits{streamsPerNode: mux.MaxStreams, streamsPerOrigin: maxStreamsPerOrigin, sessionsPerNode: maxSessionsPerNode})
}

// NewForWebSockets creates the pool for resumable WebSockets. One node may use all streams.
func NewForWebSockets(port *peer.Port) *Pool {
	return newPool(port, peer.WebSocketSession, limits{streamsPerNode: mux.MaxWebSocketStreams, streamsPerOrigin: mux.MaxWebSocketStreams, sessionsPerNode: maxWebSocketSessionsPerNode, bufferBytes: maxWebSocketBufferBytes})
}

// newPool creates a pool for streams of a kind of the peer port. l limits the streams from other nodes.
func newPool(port *peer.Port, kind peer.Kind, l limits) *Pool {
	p := &Pool{port: port, limits: l, streamBudget: mux.NewBudget(maxStreams, nil)}
	p.Outgoing = mux.NewSessionSet(l.streamsPerNode, func(ctx context.Context, node string) (net.Conn, error) {
		c, err := port.Dial(ctx, node, kind)
		if refused, ok := errors.AsType[*peer.RefusedError](err); ok && refused.Code == peer.RefusedUnsupportedKind {
			return nil, fmt.Errorf("%w: %w", mux.ErrUnsupported, err)
		}
		if err != nil {
			return nil, err
		}
		return c, nil
	})
	if l.bufferBytes > 0 {
		p.bufferBudget = mux.NewBudget(l.bufferBytes, nil)
		p.Outgoing.WithWindowPool(l.bufferBytes/2, p.bufferBudget)
	}
	p.accepted.sessions = make(map[*mux.Session]struct{})
	p.accepted.nodes, p.accepted.origins = make(map[peerOrigin]*peerUsage), make(map[string]*peerUsage)
	p.accepted.drained = make(chan struct{})
	return p
}

// serve calls handle for each stream of a session, in a separate goroutine. It returns after the last
// call. It closes c if the peer has too many sessions.
func (p *Pool) serve(c *peer.Conn, handle func(*mux.Stream)) {
	from := peerOrigin{node: c.Node(), origin: p.port.Origin(c.RemoteAddr())}
	budget := p.acquireSession(from)
	if budget == nil {
		_ = c.Close() // the peer has more sessions than it needs, and can use plain connections
		return
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	session := mux.NewServer(c, budget, func(stream *mux.Stream) bool {
		serving.Go(func() { handle(stream) })
		return true
	})
	p.add(session)
	defer p.releaseSession(from) // streams may still run here, but the peer may open another session
	defer p.remove(session)
	_ = session.Run() // the streams report the error
}

// Handler returns a handler of the sessions that other nodes open. It calls serve for each stream of a
// session, in a separate goroutine, with the node that opened it. It returns after the last call. A panic
// ends only its stream.
func (p *Pool) Handler(log zerolog.Logger, serve func(ctx context.Context, stream net.Conn, node string)) peer.Handler {
	return func(ctx context.Context, c *peer.Conn) {
		p.serve(c, func(stream *mux.Stream) { serveStream(ctx, log, stream, c, serve) })
	}
}

// serveStream calls serve for one stream.
func serveStream(ctx context.Context, log zerolog.Logger, stream *mux.Stream, c *peer.Conn, serve func(context.Context, net.Conn, string)) {
	defer func() {
		if v := recover(); v != nil {
			log.Error().Str("peer", c.Node()).Any("panic", v).Bytes("stack", debug.Stack()).Msg("stream panicked, please report this")
			_ = stream.SetLinger(0) // never fails
			_ = stream.Close()      // it may be closed
		}
	}()
	serve(ctx, stream, c.Node())
}

// acquireSession counts a session until releaseSession, and returns the budget of its streams. It
// returns nil if the node, its origin or all nodes together have reached their limit of sessions.
func (p *Pool) acquireSession(from peerOrigin) *mux.Budget {
	a := &p.accepted
	a.Lock()
	defer a.Unlock()
	ofOrigin := a.origins[from.origin]
	if ofOrigin == nil {
		ofOrigin = p.newPeerUsage(p.limits.streamsPerOrigin, p.streamBudget, p.bufferBudget)
	}
	ofNode := a.nodes[from]
	if ofNode == nil {
		ofNode = p.newPeerUsage(p.limits.streamsPerNode, ofOrigin.streams, ofOrigin.bytes)
	}
	isLimitReached := a.total == maxSessions || ofOrigin.sessions == maxSessionsPerOrigin || ofNode.sessions == p.limits.sessionsPerNode
	if isLimitReached {
		return nil
	}
	a.total++
	ofOrigin.sessions++
	ofNode.sessions++
	a.origins[from.origin], a.nodes[from] = ofOrigin, ofNode
	return ofNode.streams
}

// newPeerUsage returns a usage with up to limit streams. They may use half of the shared buffer space. The
// streams and their buffer space also count in parentStreams and parentBytes.
func (p *Pool) newPeerUsage(limit int32, parentStreams, parentBytes *mux.Budget) *peerUsage {
	usage := &peerUsage{}
	if parentBytes != nil {
		usage.bytes = mux.NewBudget(p.limits.bufferBytes/2, parentBytes)
	}
	usage.streams = mux.NewBudget(limit, parentStreams).WithWindowPool(usage.bytes)
	return usage
}

// releaseSession undoes acquireSession. Streams that still run remain in the budget of all nodes.
func (p *Pool) releaseSession(from peerOrigin) {
	a := &p.accepted
	a.Lock()
	defer a.Unlock()
	a.total--
	if isLast := a.origins[from.origin].removeSession(); isLast {
		delete(a.origins, from.origin)
	}
	if isLast := a.nodes[from].removeSession(); isLast {
		delete(a.nodes, from)
	}
}

// removeSession decrements the number of sessions, and reports whether it was the last one.
func (u *peerUsage) removeSession() (isLast bool) {
	u.sessions--
	return u.sessions == 0
}

// add registers a session that another node has opened. If the pool shuts down, it asks the other node to open
// no streams on it.
func (p *Pool) add(session *mux.Session) {
	a := &p.accepted
	a.Lock()
	defer a.Unlock()
	a.sessions[session] = struct{}{}
	if a.isShuttingDown {
		session.GoAway(0) // before any other frame
	}
}

// remove removes a session that has ended. It reports when the last session has ended during a shutdown.
func (p *Pool) remove(session *mux.Session) {
	a := &p.accepted
	a.Lock()
	defer a.Unlock()
	delete(a.sessions, session)
	if a.isShuttingDown && len(a.sessions) == 0 {
		close(a.drained)
		a.drained = make(chan struct{}) // another session may arrive before the port closes
	}
}

// Sessions returns the number of sessions from other nodes.
func (p *Pool) Sessions() int {
	a := &p.accepted
	a.Lock()
	defer a.Unlock()
	return len(a.sessions)
}

// StreamsFrom returns the number of streams opened by a node that are still open.
func (p *Pool) StreamsFrom(node string) (count int) {
	a := &p.accepted
	a.Lock()
	defer a.Unlock()
	for from, usage := range a.nodes {
		if from.node == node {
			count += usage.streams.InUse()
		}
	}
	return count
}

// BufferBytes returns how much of the shared buffer space is in use.
func (p *Pool) BufferBytes() int { return p.bufferBudget.InUse() }

// goAwayTimeout bounds the sending of GOAWAY, and the time that the peers have to read the last frames
// of the streams.
const goAwayTimeout = 100 * time.Millisecond

// Shutdown rejects new streams, then calls closeStreams, which must end the open ones. Peers retry the
// requests of rejected streams elsewhere. Shutdown returns when the peers have closed their sessions,
// which they do after the last stream, or after goAwayTimeout. If this node closed the sessions,
// responses could be lost.
func (p *Pool) Shutdown(closeStreams func()) {
	a := &p.accepted
	a.Lock()
	a.isShuttingDown = true
	sessions := slices.Collect(maps.Keys(a.sessions))
	drained := a.drained
	a.Unlock()
	var goAways sync.WaitGroup
	for _, session := range sessions {
		goAways.Go(func() { session.GoAway(goAwayTimeout) })
	}
	goAways.Wait()
	closeStreams()
	if len(sessions) == 0 {
		return
	}
	timer := time.NewTimer(goAwayTimeout)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
	}
}
