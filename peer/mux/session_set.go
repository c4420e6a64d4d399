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
	freshFor = time.Second / 2
	// layTime is how long it may take to be sure of a trunk, dialing included, and askTime to
	// be sure of one that has gone silent.
	layTime, askTime = 5 * time.Second, time.Second
	// layEvery is how often a place is dialed, less often where that brings nothing, and plainFor
	// for how long one is not that knows no trunks: by then it may be a newer version.
	layEvery, plainFor = time.Second, time.Minute
	// mostFailed is how often the time between two dials doubles where they bring no trunk, and
	// mostBroken, up to plainFor, where they bring one that soon breaks, and fails what it carries.
	mostFailed, mostBroken = 3, 6
)

// ErrUnknown is what dialing ends with at a place that knows no trunks.
var ErrUnknown = errors.New("trunk: unknown there")

// Set has a trunk to each place that lanes were asked for, one at a time. Who asks by
// Lane never waits for one: that is laid beside what goes on without.
type Set struct {
	most int32 // lanes to a place
	// each is how many bytes those share, which count in bytes, too; nil: they share none.
	each  int32
	bytes *Budget
	dial  func(ctx context.Context, place string) (net.Conn, error)
	life  context.Context //nolint:containedctx // of the set's whole life
	end   context.CancelFunc
	runs  sync.WaitGroup

	mu     sync.Mutex
	ways   map[string]*way
	alive  map[*Trunk]*way // those of all ways, and those that there were before
	closed bool
	// renewals counts what a dial under way may have missed.
	renewals int
}

// way is the way to one place. Set.mu guards it.
type way struct {
	budget *Budget
	trunk  *Trunk        // that lanes are opened by; nil: there is none
	laid   chan struct{} // closed once somebody has made sure of it, or of another one; nil: nobody is at it
	not    time.Time     // before this nobody dials
	failed int           // dials in a row that brought no trunk, or none that lasted, up to mostBroken
}

// later has the next dial wait, twice as long each time, most times.
func (w *way) later(most int) {
	w.not = time.Now().Add(min(layEvery<<min(w.failed, most), plainFor))
	w.failed = max(w.failed, min(w.failed+1, most))
}

// lose gives up a trunk that takes no more lanes; nil: it has not broken. That one was had
// says nothing of the next, which may break as soon, and fail what it carries: only one that
// has parted in peace does, or has lasted. With Set.mu held.
func (w *way) lose(t *Trunk, err error) {
	if w.trunk != t {
		return
	}
	w.trunk = nil
	peace := err == nil || errors.Is(err, ErrRetired) || errors.Is(err, net.ErrClosed)
	if !peace && time.Since(t.born) < plainFor {
		w.later(mostBroken)
		return
	}
	w.failed = 0
}

// NewSet returns a Set that has so many lanes to each place at most, and dials places by dial.
func NewSet(most int32, dial func(ctx context.Context, place string) (net.Conn, error)) *Set {
	s := &Set{most: most, dial: dial, ways: make(map[string]*way), alive: make(map[*Trunk]*way)}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Sharing has the lanes to a place share so many bytes, as Budget.Sharing says, which count in
// another budget, too. It is called before any lane is asked for.
func (s *Set) Sharing(each int32, bytes *Budget) *Set {
	s.each, s.bytes = each, bytes
	return s
}

// Lane opens a lane to a place, by a trunk from which something has come just now: so it is
// as good as a connection that was just made. Nil: there is none now; one that is missing, or
// silent, is seen to meanwhile.
func (s *Set) Lane(place string) *Lane {
	l, _ := s.lane(place)
	return l
}

// LaneSoon is Lane for who waits until somebody has made sure of a trunk, if anybody does, and
// no longer than ctx.
func (s *Set) LaneSoon(ctx context.Context, place string) *Lane {
	l, laid := s.lane(place) //nolint:contextcheck // a trunk is laid for others, too
	if laid == nil {
		return l
	}
	select {
	case <-laid:
		return s.Lane(place) //nolint:contextcheck // as above
	case <-ctx.Done():
		return nil
	}
}

// lane opens a lane; nil: laid is closed once somebody has made sure of a trunk, and nil if
// nobody is at it.
func (s *Set) lane(place string) (l *Lane, laid <-chan struct{}) {
	s.mu.Lock()
	w := s.way(place)
	t := w.trunk
	if t != nil && t.fresh() {
		s.mu.Unlock()
		if !t.roomy() {
			return nil, nil
		}
		l, _ = t.Open() // full, or it has ended this moment
		return l, nil
	}
	defer s.mu.Unlock()
	if !s.closed && w.laid == nil && !time.Now().Before(w.not) {
		w.laid = make(chan struct{})
		s.runs.Go(func() {
			ctx, cancel := context.WithTimeout(s.life, layTime)
			defer cancel()
			_ = s.Lay(ctx, place) // the next who asks has it tried again
			s.mu.Lock()
			defer s.mu.Unlock()
			close(w.laid)
			w.laid = nil
		})
	}
	return nil, w.laid
}

// Lay makes sure of the trunk to a place: it asks the other end for a word, and dials it if
// none comes, or if there is no trunk that takes lanes.
func (s *Set) Lay(ctx context.Context, place string) error {
	s.mu.Lock()
	w := s.way(place)
	t := w.trunk
	s.mu.Unlock()
	if t != nil {
		asking, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		err := cmp.Or(t.Ask(asking), t.failed())
		if err == nil && t.Works() {
			return nil
		}
		again := s.again(w, t, err)
		t.Retire() // only now: it may end at once, and in peace
		if again {
			return err
		}
	}
	t, err := s.raise(ctx, w, place)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && (s.closed || !t.Works()) {
		err = cmp.Or(t.failed(), ErrRetired)
	}
	switch {
	case errors.Is(err, ErrUnknown):
		w.not = time.Now().Add(plainFor)
	case err != nil: // it may have all the trunks that it takes
		w.later(mostFailed)
	default:
		w.trunk, w.not = t, time.Now().Add(layEvery)
	}
	return err
}

// again gives up a trunk that was asked for a word in vain, and reports whether it was one
// more that did not last: then the place is not dialed at once.
func (s *Set) again(w *way, t *Trunk, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.lose(t, err)
	return w.failed > 1
}

// raise makes a trunk to a place, and waits for its first word.
func (s *Set) raise(ctx context.Context, w *way, place string) (*Trunk, error) {
	s.mu.Lock()
	renewals := s.renewals
	s.mu.Unlock()
	conn, err := s.dial(ctx, place)
	if err != nil {
		return nil, err
	}
	t := Dialed(conn, w.budget)
	if !s.run(w, t, renewals) {
		t.Fail(ErrRetired)
		return nil, ErrRetired
	}
	if err := t.Ask(ctx); err != nil {
		t.Retire()
		return nil, err
	}
	return t, nil
}

// run has a trunk carry lanes, unless it was dialed before the set was closed or renewed.
func (s *Set) run(w *way, t *Trunk, renewals int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.renewals != renewals {
		return false
	}
	s.alive[t] = w
	s.runs.Go(func() {
		err := t.Run() // its lanes say why, too
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.alive, t)
		w.lose(t, err)
	})
	return true
}

// way returns the way to a place, without a trunk that takes no more lanes: who meets it may
// be faster than run. With mu held.
func (s *Set) way(place string) *way {
	w := s.ways[place]
	if w == nil {
		w = &way{budget: NewBudget(s.most, nil)}
		if s.bytes != nil {
			w.budget.Sharing(NewBudget(s.each, s.bytes))
		}
		s.ways[place] = w
	}
	if t := w.trunk; t != nil && !t.Works() {
		w.lose(t, t.failed())
	}
	return w
}

// Renew has further lanes go by new trunks. Those that there are end with their last lane.
func (s *Set) Renew() {
	s.mu.Lock()
	s.renewals++
	s.mu.Unlock()
	for _, t := range s.trunks() {
		t.Retire()
	}
}

// Close ends all trunks, and returns when they have.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	for _, t := range s.trunks() {
		t.Fail(net.ErrClosed)
	}
	s.runs.Wait()
}

// Open returns how many trunks there are, those that end among them.
func (s *Set) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alive)
}

// Hears reports whether something has come just now by a connection to a place of which is says
// that it counts: one that takes no more lanes tells of the path as well.
func (s *Set) Hears(place string, is func(conn net.Conn) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.ways[place]
	for t, of := range s.alive {
		if of == w && t.fresh() && is(t.conn) {
			return true
		}
	}
	return false
}

func (s *Set) trunks() []*Trunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.alive))
}
