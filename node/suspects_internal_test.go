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
		"known first":     {{boot: 5, nonce: 9}, {boot: 5}},
		"known last":      {{boot: 5}, {boot: 5, nonce: 9}},
		"an earlier boot": {{boot: 5, nonce: 9}, {boot: 4, nonce: 8}, {boot: 3}},
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
