package crashdetect

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/clock"
)

// A disk that was wiped counts its boots from the start. A crash of long ago must not hide that the current process is gone.
func TestSuspectsForgetWhatBrokeLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		s := NewDetector(nil, clock.New(), func(string, Process, time.Duration) bool { return false })
		s.ctx = over
		s.ConnClosed("a", Process{Boot: 7, Nonce: 1})
		time.Sleep(rememberFor + time.Second)
		s.ConnClosed("a", Process{Boot: 1, Nonce: 2})
		if got, want := s.mu.closed["a"].Process, (Process{Boot: 1, Nonce: 2}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// A leader from which heartbeats arrived has two connections to this node, and both break when it is killed. Only one of them identified
// the process, and only that one is evidence about a node with recent heartbeats. It must count in whatever order the connections break,
// also while the other one is being investigated.
func TestSuspectsKeepTheProcessThatBroke(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel() // no node is redialed
	for name, breaks := range map[string][]Process{
		"known first":       {{Boot: 5, Nonce: 9}, {Boot: 5}},
		"known last":        {{Boot: 5}, {Boot: 5, Nonce: 9}},
		"a process between": {{Boot: 4, Nonce: 8}, {Boot: 5}, {Boot: 5, Nonce: 9}},
		"an earlier boot":   {{Boot: 5, Nonce: 9}, {Boot: 4, Nonce: 8}, {Boot: 3}},
	} {
		s := NewDetector(nil, clock.New(), func(string, Process, time.Duration) bool { return false })
		s.ctx = over //nolint:fatcontext // each round has its own s
		for _, b := range breaks {
			s.ConnClosed("a", b)
		}
		if got, want := s.mu.closed["a"].Process, (Process{Boot: 5, Nonce: 9}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		s.ctx = t.Context()
		if gone, more := s.nextProcess("a", Process{Boot: 5}); !more || gone.Nonce != 9 {
			t.Errorf("%s: next = %+v, %v; want the process", name, gone, more)
		}
		if gone, more := s.nextProcess("a", Process{Boot: 5, Nonce: 9}); more {
			t.Errorf("%s: next = %+v, though it was told", name, gone)
		}
	}
}

// A process without a nonce is not the previous process, which had one: evidence about one process does not count against another.
func TestSuspectHasItsOwnNonce(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s := NewDetector(nil, clock.New(), func(string, Process, time.Duration) bool { return false })
	s.ctx = over
	s.ConnClosed("a", Process{Boot: 5, Nonce: 9})
	s.ConnClosed("a", Process{Boot: 6})
	if got, want := s.mu.closed["a"].Process, (Process{Boot: 6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A new leader neither investigates nor remembers crashes of long ago.
func TestNewLeaderLooksAtWhatBrokeLately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		s := NewDetector(nil, clock.New(), func(string, Process, time.Duration) bool { return false })
		s.ctx = over
		s.ConnClosed("a", Process{Boot: 1, Nonce: 1})
		time.Sleep(rememberFor)
		s.ConnClosed("b", Process{Boot: 1, Nonce: 2})
		time.Sleep(time.Second)
		s.Recheck()
		if _, kept := s.mu.closed["b"]; !kept || len(s.mu.closed) != 1 {
			t.Errorf("%+v, want only b", s.mu.closed)
		}
	})
}

// Only one investigation of a node runs at a time. The next one may start after it, and none starts once the run has ended.
func TestInvestigationsAreOneAtATime(t *testing.T) {
	// Without a port, a redial would panic.
	s := NewDetector(nil, clock.New(), func(string, Process, time.Duration) bool { return false })
	s.ctx = t.Context()
	s.mu.investigating["a"] = true
	s.ConnClosed("a", Process{Boot: 2, Nonce: 1})
	s.Wait()
	if _, more := s.nextProcess("b", Process{Boot: 1}); more {
		t.Error("there is more to find out of a node whose connection did not break")
	}
	if _, more := s.nextProcess("a", Process{Boot: 2, Nonce: 1}); more || s.mu.investigating["a"] {
		t.Errorf("all is told, and it goes on: %v, busy %v", more, s.mu.investigating)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s.ctx = over
	if _, more := s.nextProcess("a", Process{Boot: 1}); more {
		t.Error("it goes on after the run")
	}
}
