package mux

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// recentReadTime is how long after the last read the path of a session is assumed to work.
	recentReadTime = time.Second / 2
	// connectTimeout limits Connect in the background, including dialing.
	connectTimeout = 5 * time.Second
	// pongTimeout limits the wait for a pong of a silent session.
	pongTimeout = time.Second
	// dialInterval is the initial time between two dials of a node.
	dialInterval = time.Second
	// maxDialInterval limits the backoff, and is the interval for a node that does not support
	// sessions: it may be upgraded later. A session that failed earlier than maxDialInterval is
	// treated as a dial failure.
	maxDialInterval = time.Minute
	// maxDialDoublings limits how often the dial interval doubles after failed dials.
	maxDialDoublings = 3
	// maxBrokenDoublings limits how often the dial interval doubles after sessions that soon failed,
	// and failed their streams with them.
	maxBrokenDoublings = 6
)

// ErrUnsupported is the error of the dial function for a node that does not support sessions.
var ErrUnsupported = errors.New("mux: node does not support sessions")

// SessionSet maintains up to one session for new streams to each node. Sessions are dialed in the
// background, so OpenStream never waits. It is safe for concurrent use.
type SessionSet struct {
	maxStreams    int32   // limit of the streams to one node
	windowPerNode int32   // limit of the bytes of windowPool that streams to one node share
	windowPool    *Budget // nil means no window pool
	dial          func(ctx context.Context, node string) (net.Conn, error)
	ctx           context.Context //nolint:containedctx // canceled by Close
	cancel        context.CancelFunc
	tasks         sync.WaitGroup

	// mu protects the following fields.
	mu           sync.Mutex
	destinations map[string]*destination
	sessions     map[*Session]*destination // all sessions, including replaced ones
	closed       bool
	generation   int // number of Renew calls; a dial of an older generation is discarded
}

// destination is a node to which streams are opened. SessionSet.mu protects it.
type destination struct {
	budget     *Budget
	session    *Session      // for new streams; nil means none
	connecting chan struct{} // closed when a background Connect has returned; nil means none runs
	notBefore  time.Time     // no dial before this time
	failures   int           // consecutive dials without a lasting session, up to maxBrokenDoublings
}

// backOff delays the next dial. The delay doubles with each call, up to maxDoublings times.
func (dest *destination) backOff(maxDoublings int) {
	doublings := min(dest.failures, maxDoublings)
	delay := min(dialInterval<<doublings, maxDialInterval)
	dest.notBefore = time.Now().Add(delay)
	if dest.failures < maxDoublings {
		dest.failures++
	}
}

// removeSession removes a session that opens no more streams. err is its failure, nil if it has
// not failed. A session that failed early delays the next dial, because the next session may fail
// just as early and take its streams with it. A session that was closed normally, or lasted for
// maxDialInterval, resets the backoff. SessionSet.mu must be held.
func (dest *destination) removeSession(session *Session, err error) {
	if dest.session != session {
		return
	}
	dest.session = nil
	orderly := err == nil || errors.Is(err, ErrDraining) || errors.Is(err, net.ErrClosed)
	if !orderly && time.Since(session.created) < maxDialInterval {
		dest.backOff(maxBrokenDoublings)
		return
	}
	dest.failures = 0
}

// NewSessionSet returns a set that opens up to maxStreams streams to each node, and dials nodes
// with dial.
func NewSessionSet(maxStreams int32, dial func(ctx context.Context, node string) (net.Conn, error)) *SessionSet {
	ss := &SessionSet{
		maxStreams:   maxStreams,
		dial:         dial,
		destinations: make(map[string]*destination),
		sessions:     make(map[*Session]*destination),
	}
	ss.ctx, ss.cancel = context.WithCancel(context.Background())
	return ss
}

// WithWindowPool makes the streams to one node share up to perNode bytes of pool for their
// windows: see Budget.WithWindowPool. It must be called before the first stream is opened. It
// returns ss.
func (ss *SessionSet) WithWindowPool(perNode int32, pool *Budget) *SessionSet {
	ss.windowPerNode, ss.windowPool = perNode, pool
	return ss
}

// OpenStream opens a stream to a node, on a session that has received something recently. Such a
// stream is as reliable as a new connection, because the node has just proven to be reachable.
// OpenStream returns nil if there is no such session. It then dials a missing session, or probes a
// silent one, in the background.
func (ss *SessionSet) OpenStream(node string) *Stream {
	st, _ := ss.openOrConnect(node)
	return st
}

// OpenStreamWait is OpenStream for a caller that can wait for a session that is being connected,
// until ctx is done.
func (ss *SessionSet) OpenStreamWait(ctx context.Context, node string) *Stream {
	st, connected := ss.openOrConnect(node) //nolint:contextcheck // other callers use the session, too
	if connected == nil {
		return st
	}
	select {
	case <-connected:
		return ss.OpenStream(node) //nolint:contextcheck // other callers use the session, too
	case <-ctx.Done():
		return nil
	}
}

// openOrConnect opens a stream, or starts Connect in the background if there is no suitable
// session. If st is nil, connected is closed when a running Connect has returned; nil means that
// none runs.
func (ss *SessionSet) openOrConnect(node string) (st *Stream, connected <-chan struct{}) {
	ss.mu.Lock()
	dest := ss.destinationLocked(node)
	session := dest.session
	if session != nil && session.readRecently() {
		ss.mu.Unlock()
		if !session.hasQueueSpace() {
			return nil, nil
		}
		st, _ = session.OpenStream() // fails if the budget is used up or the session has just ended
		return st, nil
	}
	defer ss.mu.Unlock()
	if !ss.closed && dest.connecting == nil && !time.Now().Before(dest.notBefore) {
		ss.startConnectLocked(dest, node)
	}
	return nil, dest.connecting
}

// startConnectLocked starts Connect in the background. Until it returns, dest.connecting is set.
func (ss *SessionSet) startConnectLocked(dest *destination, node string) {
	dest.connecting = make(chan struct{})
	ss.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(ss.ctx, connectTimeout)
		defer cancel()
		_ = ss.Connect(ctx, node) // the next call of openOrConnect tries again
		ss.mu.Lock()
		defer ss.mu.Unlock()
		close(dest.connecting)
		dest.connecting = nil
	})
}

// Connect ensures that there is a working session to a node. It waits for a pong of the existing
// session. If no pong arrives, or no session opens streams, it dials a new one.
func (ss *SessionSet) Connect(ctx context.Context, node string) error {
	ss.mu.Lock()
	dest := ss.destinationLocked(node)
	session := dest.session
	ss.mu.Unlock()
	if session != nil {
		pongCtx, cancel := context.WithTimeout(ctx, pongTimeout)
		defer cancel()
		err := cmp.Or(session.AwaitPong(pongCtx), session.failureCause())
		if err == nil && session.CanOpen() {
			return nil
		}
		backOff := ss.removeUnresponsive(dest, session, err)
		session.Drain() // after removeUnresponsive: a session without streams then ends in order
		if backOff {
			return err
		}
	}
	session, err := ss.dialSession(ctx, dest, node)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	isUnusable := err == nil && (ss.closed || !session.CanOpen())
	if isUnusable {
		err = cmp.Or(session.failureCause(), ErrDraining)
	}
	switch {
	case errors.Is(err, ErrUnsupported):
		dest.notBefore = time.Now().Add(maxDialInterval)
	case err != nil: // also if the node accepts no more sessions
		dest.backOff(maxDialDoublings)
	default:
		dest.session, dest.notBefore = session, time.Now().Add(dialInterval)
	}
	return err
}

// removeUnresponsive removes a session that did not answer. It reports whether sessions to this
// node fail repeatedly, so that the node must not be dialed at once.
func (ss *SessionSet) removeUnresponsive(dest *destination, session *Session, err error) (backOff bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	dest.removeSession(session, err)
	return dest.failures > 1
}

// dialSession dials a node and waits for the first pong.
func (ss *SessionSet) dialSession(ctx context.Context, dest *destination, node string) (*Session, error) {
	ss.mu.Lock()
	generation := ss.generation
	ss.mu.Unlock()
	conn, err := ss.dial(ctx, node)
	if err != nil {
		return nil, err
	}
	session := NewClient(conn, dest.budget)
	if !ss.runSession(dest, session, generation) {
		session.Fail(ErrDraining)
		return nil, ErrDraining
	}
	if err := session.AwaitPong(ctx); err != nil {
		session.Drain()
		return nil, err
	}
	return session, nil
}

// runSession runs a session, unless the set was closed or renewed since it was dialed.
func (ss *SessionSet) runSession(dest *destination, session *Session, generation int) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed || ss.generation != generation {
		return false
	}
	ss.sessions[session] = dest
	ss.tasks.Go(func() {
		err := session.Run()
		ss.mu.Lock()
		defer ss.mu.Unlock()
		delete(ss.sessions, session)
		dest.removeSession(session, err)
	})
	return true
}

// destinationLocked returns the destination of a node. It removes a session that opens no more
// streams: the caller may detect that earlier than the goroutine that runs the session.
func (ss *SessionSet) destinationLocked(node string) *destination {
	dest := ss.destinations[node]
	if dest == nil {
		dest = &destination{budget: NewBudget(ss.maxStreams, nil)}
		if ss.windowPool != nil {
			dest.budget.WithWindowPool(NewBudget(ss.windowPerNode, ss.windowPool))
		}
		ss.destinations[node] = dest
	}
	if session := dest.session; session != nil && !session.CanOpen() {
		dest.removeSession(session, session.failureCause())
	}
	return dest
}

// Renew opens further streams on new sessions. The existing sessions drain.
func (ss *SessionSet) Renew() {
	ss.mu.Lock()
	ss.generation++
	ss.mu.Unlock()
	for _, session := range ss.allSessions() {
		session.Drain()
	}
}

// Close fails all sessions, and returns when they have ended.
func (ss *SessionSet) Close() {
	ss.mu.Lock()
	ss.closed = true
	ss.mu.Unlock()
	ss.cancel()
	for _, session := range ss.allSessions() {
		session.Fail(net.ErrClosed)
	}
	ss.tasks.Wait()
}

// Len returns the number of sessions, including draining ones.
func (ss *SessionSet) Len() int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.sessions)
}

// ReceivedRecently reports whether something was received recently on a connection to a node for
// which match returns true. A draining session is included, because it proves the same path.
func (ss *SessionSet) ReceivedRecently(node string, match func(conn net.Conn) bool) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	dest := ss.destinations[node]
	for session, owner := range ss.sessions {
		if owner == dest && session.readRecently() && match(session.conn) {
			return true
		}
	}
	return false
}

// allSessions returns all sessions, including draining ones.
func (ss *SessionSet) allSessions() []*Session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return slices.Collect(maps.Keys(ss.sessions))
}
