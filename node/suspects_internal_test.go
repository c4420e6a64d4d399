package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/clock"
)

// A disk that was emptied counts its boots from the start. What broke long ago must
// not hide that its process is gone.
func TestSuspectsForgetWhatBrokeLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		s := newSuspects(nil, clock.New(), func(string, suspect, time.Duration) bool { return false })
		s.ctx = over
		s.broke("a", suspect{boot: 7, nonce: 1})
		time.Sleep(suspectFor + time.Second)
		s.broke("a", suspect{boot: 1, nonce: 2})
		if got, want := s.mu.broken["a"].suspect, (suspect{boot: 1, nonce: 2}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// A leader of which heartbeats came, too, has two connections to this node, and
// both break when it is killed. Only one of them told which process it was, and
// only that is evidence about a node that is heard: it must come through whatever
// the order, also while the other is being looked into.
func TestSuspectsKeepTheProcessThatBroke(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel() // nobody is redialled
	for name, breaks := range map[string][]suspect{
		"known first":       {{boot: 5, nonce: 9}, {boot: 5}},
		"known last":        {{boot: 5}, {boot: 5, nonce: 9}},
		"a process between": {{boot: 4, nonce: 8}, {boot: 5}, {boot: 5, nonce: 9}},
		"an earlier boot":   {{boot: 5, nonce: 9}, {boot: 4, nonce: 8}, {boot: 3}},
	} {
		s := newSuspects(nil, clock.New(), func(string, suspect, time.Duration) bool { return false })
		s.ctx = over //nolint:fatcontext // of another s each time
		for _, b := range breaks {
			s.broke("a", b)
		}
		if got, want := s.mu.broken["a"].suspect, (suspect{boot: 5, nonce: 9}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		s.ctx = t.Context()
		if gone, more := s.next("a", suspect{boot: 5}); !more || gone.nonce != 9 {
			t.Errorf("%s: next = %+v, %v; want the process", name, gone, more)
		}
		if gone, more := s.next("a", suspect{boot: 5, nonce: 9}); more {
			t.Errorf("%s: next = %+v, though it was told", name, gone)
		}
	}
}

// A process that told no nonce is not the one before it, which did: evidence about a
// process counts against no other.
func TestSuspectHasItsOwnNonce(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s := newSuspects(nil, clock.New(), func(string, suspect, time.Duration) bool { return false })
	s.ctx = over
	s.broke("a", suspect{boot: 5, nonce: 9})
	s.broke("a", suspect{boot: 6})
	if got, want := s.mu.broken["a"].suspect, (suspect{boot: 6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// What broke long ago is not looked into by a new leader, nor remembered.
func TestNewLeaderLooksAtWhatBrokeLately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		s := newSuspects(nil, clock.New(), func(string, suspect, time.Duration) bool { return false })
		s.ctx = over
		s.broke("a", suspect{boot: 1, nonce: 1})
		time.Sleep(suspectFor)
		s.broke("b", suspect{boot: 1, nonce: 2})
		time.Sleep(time.Second)
		s.again()
		if _, kept := s.mu.broken["b"]; !kept || len(s.mu.broken) != 1 {
			t.Errorf("%+v, want only b", s.mu.broken)
		}
	})
}

// There is one investigation of a node at a time; after it the next one may begin, and none
// does once the run has ended.
func TestInvestigationsAreOneAtATime(t *testing.T) {
	// Without a port: who redials panics.
	s := newSuspects(nil, clock.New(), func(string, suspect, time.Duration) bool { return false })
	s.ctx = t.Context()
	s.mu.busy["a"] = true
	s.broke("a", suspect{boot: 2, nonce: 1})
	s.wait()
	if _, more := s.next("b", suspect{boot: 1}); more {
		t.Error("there is more to find out of a node whose connection did not break")
	}
	if _, more := s.next("a", suspect{boot: 2, nonce: 1}); more || s.mu.busy["a"] {
		t.Errorf("all is told, and it goes on: %v, busy %v", more, s.mu.busy)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s.ctx = over
	if _, more := s.next("a", suspect{boot: 1}); more {
		t.Error("it goes on after the run")
	}
}
