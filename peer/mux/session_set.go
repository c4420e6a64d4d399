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
	// connectTimeout limits Connect in the background, including dialing, and pongTimeout limits
	// the wait for a pong of a silent session.
	connectTimeout, pongTimeout = 5 * time.Second, time.Second
	// dialInterval is the initial time between two dials of a node. maxDialInterval limits the
	// backoff, and is the interval for a node that does not support sessions: it may be upgraded
	// later. A session that failed earlier than maxDialInterval counts as a dial failure.
	dialInterval, maxDialInterval = time.Second, time.Minute
	// maxDialDoublings limits how often the dial interval doubles after failed dials, and
	// maxBrokenDoublings after sessions that soon failed, and failed their streams with them.
	maxDialDoublings, maxBrokenDoublings = 3, 6
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
	generation   int // number of Renew calls; a dial of an earlier generation is discarded
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
func (d *destination) backOff(maxDoublings int) {
	d.notBefore = time.Now().Add(min(dialInterval<<min(d.failures, maxDoublings), maxDialInterval))
	d.failures = max(d.failures, min(d.failures+1, maxDoublings))
}

// removeSession removes a session that opens no more streams. err is its failure, nil if it has
// not failed. A session that failed early delays the next dial, because the next one may fail as
// early, with its streams. A session that ended in order, or lasted for maxDialInterval, resets
// the backoff. SessionSet.mu must be held.
func (d *destination) removeSession(s *Session, err error) {
	if d.session != s {
		return
	}
	d.session = nil
	orderly := err == nil || errors.Is(err, ErrDraining) || errors.Is(err, net.ErrClosed)
	if !orderly && time.Since(s.created) < maxDialInterval {
		d.backOff(maxBrokenDoublings)
		return
	}
	d.failures = 0
}

// NewSessionSet returns a set that opens up to maxStreams streams to each node, and dials nodes
// with dial.
func NewSessionSet(maxStreams int32, dial func(ctx context.Context, node string) (net.Conn, error)) *SessionSet {
	ss := &SessionSet{maxStreams: maxStreams, dial: dial, destinations: make(map[string]*destination), sessions: make(map[*Session]*destination)}
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
// stream is as reliable as a new connection. It returns nil if there is no such session. A missing
// or silent session is then dialed or probed in the background.
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
	d := ss.destinationLocked(node)
	s := d.session
	if s != nil && s.readRecently() {
		ss.mu.Unlock()
		if !s.hasQueueSpace() {
			return nil, nil
		}
		st, _ = s.OpenStream() // fails if the budget is used up or the session has just ended
		return st, nil
	}
	defer ss.mu.Unlock()
	if !ss.closed && d.connecting == nil && !time.Now().Before(d.notBefore) {
		d.connecting = make(chan struct{})
		ss.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(ss.ctx, connectTimeout)
			defer cancel()
			_ = ss.Connect(ctx, node) // the next call of openOrConnect tries again
			ss.mu.Lock()
			defer ss.mu.Unlock()
			close(d.connecting)
			d.connecting = nil
		})
	}
	return nil, d.connecting
}

// Connect ensures that there is a working session to a node: it waits for a pong of the existing
// one, and dials a new one if no pong arrives or no session opens streams.
func (ss *SessionSet) Connect(ctx context.Context, node string) error {
	ss.mu.Lock()
	d := ss.destinationLocked(node)
	s := d.session
	ss.mu.Unlock()
	if s != nil {
		pongCtx, cancel := context.WithTimeout(ctx, pongTimeout)
		defer cancel()
		err := cmp.Or(s.AwaitPong(pongCtx), s.failureCause())
		if err == nil && s.CanOpen() {
			return nil
		}
		backOff := ss.removeUnresponsive(d, s, err)
		s.Drain() // after discard: a session without streams ends at once, in order
		if backOff {
			return err
		}
	}
	s, err := ss.dialSession(ctx, d, node)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if err == nil && (ss.closed || !s.CanOpen()) {
		err = cmp.Or(s.failureCause(), ErrDraining)
	}
	switch {
	case errors.Is(err, ErrUnsupported):
		d.notBefore = time.Now().Add(maxDialInterval)
	case err != nil: // also if the node accepts no more sessions
		d.backOff(maxDialDoublings)
	default:
		d.session, d.notBefore = s, time.Now().Add(dialInterval)
	}
	return err
}

// removeUnresponsive removes a session that did not answer. It reports whether sessions to this
// node fail repeatedly, so that the node must not be dialed at once.
func (ss *SessionSet) removeUnresponsive(d *destination, s *Session, err error) (backOff bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	d.removeSession(s, err)
	return d.failures > 1
}

// dialSession dials a node and waits for the first pong.
func (ss *SessionSet) dialSession(ctx context.Context, d *destination, node string) (*Session, error) {
	ss.mu.Lock()
	generation := ss.generation
	ss.mu.Unlock()
	conn, err := ss.dial(ctx, node)
	if err != nil {
		return nil, err
	}
	s := NewClient(conn, d.budget)
	if !ss.runSession(d, s, generation) {
		s.Fail(ErrDraining)
		return nil, ErrDraining
	}
	if err := s.AwaitPong(ctx); err != nil {
		s.Drain()
		return nil, err
	}
	return s, nil
}

// runSession runs a session, unless the set was closed or renewed since it was dialed.
func (ss *SessionSet) runSession(d *destination, s *Session, generation int) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed || ss.generation != generation {
		return false
	}
	ss.sessions[s] = d
	ss.tasks.Go(func() {
		err := s.Run()
		ss.mu.Lock()
		defer ss.mu.Unlock()
		delete(ss.sessions, s)
		d.removeSession(s, err)
	})
	return true
}

// destinationLocked returns the destination of a node. It removes a session that opens no more
// streams: the caller may detect that earlier than start does.
func (ss *SessionSet) destinationLocked(node string) *destination {
	d := ss.destinations[node]
	if d == nil {
		d = &destination{budget: NewBudget(ss.maxStreams, nil)}
		if ss.windowPool != nil {
			d.budget.WithWindowPool(NewBudget(ss.windowPerNode, ss.windowPool))
		}
		ss.destinations[node] = d
	}
	if s := d.session; s != nil && !s.CanOpen() {
		d.removeSession(s, s.failureCause())
	}
	return d
}

// Renew opens further streams on new sessions. The existing sessions drain.
func (ss *SessionSet) Renew() {
	ss.mu.Lock()
	ss.generation++
	ss.mu.Unlock()
	for _, s := range ss.allSessions() {
		s.Drain()
	}
}

// Close fails all sessions, and returns when they have ended.
func (ss *SessionSet) Close() {
	ss.mu.Lock()
	ss.closed = true
	ss.mu.Unlock()
	ss.cancel()
	for _, s := range ss.allSessions() {
		s.Fail(net.ErrClosed)
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
// which match returns true. A draining session counts, too: it proves the same path.
func (ss *SessionSet) ReceivedRecently(node string, match func(conn net.Conn) bool) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	dest := ss.destinations[node]
	for s, owner := range ss.sessions {
		if owner == dest && s.readRecently() && match(s.conn) {
			return true
		}
	}
	return false
}

func (ss *SessionSet) allSessions() []*Session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return slices.Collect(maps.Keys(ss.sessions))
}
