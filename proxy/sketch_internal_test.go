package proxy

import (
	"fmt"
	"testing"
)

// Whatever else comes, a key that makes up more than its part of all is among those that
// are named, and its count is no lower than it should be.
func TestSketchFindsWhatComesMost(t *testing.T) {
	var s sketch
	const n = 100_000
	for i := range n {
		s.add(fmt.Appendf(nil, "rare %d", i))
		switch {
		case i%10 == 0:
			s.add([]byte("first"))
		case i%20 == 1:
			s.add([]byte("second"))
		}
	}
	if len(s.by) > sketchKeys {
		t.Errorf("%d keys are kept", len(s.by))
	}
	top := s.most(2)
	if len(top) != 2 || top[0].key != "first" || top[1].key != "second" || top[0].count < n/10 || top[1].count < n/20 {
		t.Errorf("most: %+v", top)
	}
	for range 1000 {
		s.fade(0.9)
	}
	if len(s.by) != 0 {
		t.Errorf("%d keys are left after all has faded", len(s.by))
	}
}
