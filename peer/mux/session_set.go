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
	// freshFor is for how long after something has come by a trunk it is taken to be a path.
	heardWithin = time.Second / 2
	// layTime is how long it may take to be sure of a trunk, dialing included, and askTime to
	// be sure of one that has gone silent.
	connectTimeout, pongTimeout = 5 * time.Second, time.Second
	// layEvery is how often a place is dialed, less often where that brings nothing, and plainFor
	// for how long one is not that knows no trunks: by then it may be a newer version.
	dialInterval, maxDialInterval = time.Second, time.Minute
	// mostFailed is how often the time between two dials doubles where they bring no trunk, and
	// mostBroken, up to plainFor, where they bring one that soon breaks, and fails what it carries.
	maxDialDoublings, maxBrokenDoublings = 3, 6
)

// ErrUnknown is what dialing ends with at a place that knows no trunks.
var ErrUnsupported = errors.New("trunk: unknown there")

// Set has a trunk to each place that lanes were asked for, one at a time. Who asks by
// Lane never waits for one: that is laid beside what goes on without.
type SessionSet struct {
	maxStreams int32 // lanes to a place
	// each is how many bytes those share, which count in bytes, too; nil: they share none.
	windowPerNode int32
	windowPool    *Budget
	dial          func(ctx context.Context, place string) (net.Conn, error)
	ctx           context.Context //nolint:containedctx // of the set's whole life
	cancel        context.CancelFunc
	running       sync.WaitGroup

	mu           sync.Mutex
	destinations map[string]*destination
	sessions     map[*Session]*destination // those of all ways, and those that there were before
	closed       bool
	// renewals counts what a dial under way may have missed.
	generation int
}

// way is the way to one place. Set.mu guards it.
type destination struct {
	budget     *Budget
	session    *Session      // that lanes are opened by; nil: there is none
	connecting chan struct{} // closed once somebody has made sure of it, or of another one; nil: nobody is at it
	notBefore  time.Time     // before this nobody dials
	failures   int           // dials in a row that brought no trunk, or none that lasted, up to mostBroken
}

// later has the next dial wait, twice as long each time, most times.
func (d *destination) backOff(most int) {
	d.notBefore = time.Now().Add(min(dialInterval<<min(d.failures, most), maxDialInterval))
	d.failures = max(d.failures, min(d.failures+1, most))
}

// lose gives up a trunk that takes no more lanes; nil: it has not broken. That one was had
// says nothing of the next, which may break as soon, and fail what it carries: only one that
// has parted in peace does, or has lasted. With Set.mu held.
func (d *destination) removeSession(s *Session, err error) {
	if d.session != s {
		return
	}
	d.session = nil
	peace := err == nil || errors.Is(err, ErrDraining) || errors.Is(err, net.ErrClosed)
	if !peace && time.Since(s.created) < maxDialInterval {
		d.backOff(maxBrokenDoublings)
		return
	}
	d.failures = 0
}

// NewSet returns a Set that has so many lanes to each place at most, and dials places by dial.
func NewSessionSet(most int32, dial func(ctx context.Context, place string) (net.Conn, error)) *SessionSet {
	ss := &SessionSet{maxStreams: most, dial: dial, destinations: make(map[string]*destination), sessions: make(map[*Session]*destination)}
	ss.ctx, ss.cancel = context.WithCancel(context.Background())
	return ss
}

// Sharing has the lanes to a place share so many bytes, as Budget.Sharing says, which count in
// another budget, too. It is called before any lane is asked for.
func (ss *SessionSet) WithWindowPool(each int32, bytes *Budget) *SessionSet {
	ss.windowPerNode, ss.windowPool = each, bytes
	return ss
}

// Lane opens a lane to a place, by a trunk from which something has come just now: so it is
// as good as a connection that was just made. Nil: there is none now; one that is missing, or
// silent, is seen to meanwhile.
func (ss *SessionSet) OpenStream(place string) *Stream {
	st, _ := ss.openOrConnect(place)
	return st
}

// LaneSoon is Lane for who waits until somebody has made sure of a trunk, if anybody does, and
// no longer than ctx.
func (ss *SessionSet) OpenStreamWait(ctx context.Context, place string) *Stream {
	st, laid := ss.openOrConnect(place) //nolint:contextcheck // a trunk is laid for others, too
	if laid == nil {
		return st
	}
	select {
	case <-laid:
		return ss.OpenStream(place) //nolint:contextcheck // as above
	case <-ctx.Done():
		return nil
	}
}

// lane opens a lane; nil: laid is closed once somebody has made sure of a trunk, and nil if
// nobody is at it.
func (ss *SessionSet) openOrConnect(place string) (st *Stream, laid <-chan struct{}) {
	ss.mu.Lock()
	d := ss.destinationLocked(place)
	s := d.session
	if s != nil && s.heardRecently() {
		ss.mu.Unlock()
		if !s.hasQueueSpace() {
			return nil, nil
		}
		st, _ = s.OpenStream() // full, or it has ended this moment
		return st, nil
	}
	defer ss.mu.Unlock()
	if !ss.closed && d.connecting == nil && !time.Now().Before(d.notBefore) {
		d.connecting = make(chan struct{})
		ss.running.Go(func() {
			ctx, cancel := context.WithTimeout(ss.ctx, connectTimeout)
			defer cancel()
			_ = ss.Connect(ctx, place) // the next who asks has it tried again
			ss.mu.Lock()
			defer ss.mu.Unlock()
			close(d.connecting)
			d.connecting = nil
		})
	}
	return nil, d.connecting
}

// Lay makes sure of the trunk to a place: it asks the other end for a word, and dials it if
// none comes, or if there is no trunk that takes lanes.
func (ss *SessionSet) Connect(ctx context.Context, place string) error {
	ss.mu.Lock()
	d := ss.destinationLocked(place)
	s := d.session
	ss.mu.Unlock()
	if s != nil {
		asking, cancel := context.WithTimeout(ctx, pongTimeout)
		defer cancel()
		err := cmp.Or(s.AwaitPong(asking), s.failure())
		if err == nil && s.CanOpen() {
			return nil
		}
		again := ss.discard(d, s, err)
		s.Drain() // only now: it may end at once, and in peace
		if again {
			return err
		}
	}
	s, err := ss.dialSession(ctx, d, place)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if err == nil && (ss.closed || !s.CanOpen()) {
		err = cmp.Or(s.failure(), ErrDraining)
	}
	switch {
	case errors.Is(err, ErrUnsupported):
		d.notBefore = time.Now().Add(maxDialInterval)
	case err != nil: // it may have all the trunks that it takes
		d.backOff(maxDialDoublings)
	default:
		d.session, d.notBefore = s, time.Now().Add(dialInterval)
	}
	return err
}

// again gives up a trunk that was asked for a word in vain, and reports whether it was one
// more that did not last: then the place is not dialed at once.
func (ss *SessionSet) discard(d *destination, s *Session, err error) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	d.removeSession(s, err)
	return d.failures > 1
}

// raise makes a trunk to a place, and waits for its first word.
func (ss *SessionSet) dialSession(ctx context.Context, d *destination, place string) (*Session, error) {
	ss.mu.Lock()
	renewals := ss.generation
	ss.mu.Unlock()
	conn, err := ss.dial(ctx, place)
	if err != nil {
		return nil, err
	}
	s := NewClient(conn, d.budget)
	if !ss.start(d, s, renewals) {
		s.Fail(ErrDraining)
		return nil, ErrDraining
	}
	if err := s.AwaitPong(ctx); err != nil {
		s.Drain()
		return nil, err
	}
	return s, nil
}

// run has a trunk carry lanes, unless it was dialed before the set was closed or renewed.
func (ss *SessionSet) start(d *destination, s *Session, renewals int) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.closed || ss.generation != renewals {
		return false
	}
	ss.sessions[s] = d
	ss.running.Go(func() {
		err := s.Run() // its lanes say why, too
		ss.mu.Lock()
		defer ss.mu.Unlock()
		delete(ss.sessions, s)
		d.removeSession(s, err)
	})
	return true
}

// way returns the way to a place, without a trunk that takes no more lanes: who meets it may
// be faster than run. With mu held.
func (ss *SessionSet) destinationLocked(place string) *destination {
	d := ss.destinations[place]
	if d == nil {
		d = &destination{budget: NewBudget(ss.maxStreams, nil)}
		if ss.windowPool != nil {
			d.budget.WithWindowPool(NewBudget(ss.windowPerNode, ss.windowPool))
		}
		ss.destinations[place] = d
	}
	if s := d.session; s != nil && !s.CanOpen() {
		d.removeSession(s, s.failure())
	}
	return d
}

// Renew has further lanes go by new trunks. Those that there are end with their last lane.
func (ss *SessionSet) Renew() {
	ss.mu.Lock()
	ss.generation++
	ss.mu.Unlock()
	for _, s := range ss.list() {
		s.Drain()
	}
}

// Close ends all trunks, and returns when they have.
func (ss *SessionSet) Close() {
	ss.mu.Lock()
	ss.closed = true
	ss.mu.Unlock()
	ss.cancel()
	for _, s := range ss.list() {
		s.Fail(net.ErrClosed)
	}
	ss.running.Wait()
}

// Open returns how many trunks there are, those that end among them.
func (ss *SessionSet) Len() int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.sessions)
}

// Hears reports whether something has come just now by a connection to a place of which is says
// that it counts: one that takes no more lanes tells of the path as well.
func (ss *SessionSet) HeardFrom(place string, is func(conn net.Conn) bool) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	d := ss.destinations[place]
	for s, of := range ss.sessions {
		if of == d && s.heardRecently() && is(s.conn) {
			return true
		}
	}
	return false
}

func (ss *SessionSet) list() []*Session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return slices.Collect(maps.Keys(ss.sessions))
}
