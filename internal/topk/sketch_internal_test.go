package topk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"shardway/internal/raceflag"
)

// Whatever else comes, a key that makes up more than its part of all is among those that
// are named, and its count is no lower than it should be.
func TestSketchFindsMostFrequentKeys(t *testing.T) {
	var s Sketch
	n := raceflag.Share(100_000, 10_000)
	for i := range n {
		s.Add(fmt.Appendf(nil, "rare %d", i))
		switch {
		case i%10 == 0:
			s.Add([]byte("first"))
		case i%20 == 1:
			s.Add([]byte("second"))
		}
	}
	if len(s.by) > sketchKeys {
		t.Errorf("%d keys are kept", len(s.by))
	}
	top := s.Top(2)
	if len(top) != 2 || top[0].Key != "first" || top[1].Key != "second" || top[0].Count < float64(n/10) || top[1].Count < float64(n/20) {
		t.Errorf("most: %+v", top)
	}
	for range 1000 {
		s.Fade(0.9)
	}
	if len(s.by) != 0 {
		t.Errorf("%d keys are left after all has faded", len(s.by))
	}
}

// A count is never too low, and too high by what the sketch says at most, however the keys
// come and go: a key that came in for another would else stand far below its rate for
// minutes, or far above it for ever.
func TestSketchReportsItsError(t *testing.T) {
	var s Sketch
	rng, exact := rand.New(rand.NewPCG(1, 2)), map[string]float64{}
	for i := range 20_000 {
		key := strconv.Itoa(rng.IntN(1 + rng.IntN(4*sketchKeys)))
		s.Add([]byte(key))
		exact[key]++
		if i%5000 == 4999 {
			s.Fade(0.5)
			for k := range exact {
				exact[k] *= 0.5
			}
		}
	}
	if len(s.by) != sketchKeys {
		t.Errorf("%d keys are kept, want %d", len(s.by), sketchKeys)
	}
	for key, c := range s.by {
		if n := exact[key]; c.Count < n || c.Count > n+c.over {
			t.Errorf("%s came %v times, and is counted %v, too high by %v at most", key, n, c.Count, c.over)
		}
	}
	all := s.Top(2 * sketchKeys)
	for i, c := range all {
		if c.Count <= 2*c.over {
			t.Errorf("%+v is named, and may owe its count to others", c)
		}
		if i > 0 && all[i-1].Count < c.Count {
			t.Errorf("%+v comes after %+v", c, all[i-1])
		}
	}
	if few := s.Top(3); len(few) != 3 || !slices.Equal(few, all[:3]) {
		t.Errorf("the first three are %+v, want %+v", few, all[:min(3, len(all))])
	}
}

// A key that came once, when there was no place left, is not named with the count of the
// one whose place it took.
func TestNewKeyOfFullSketchIsNotReported(t *testing.T) {
	var s Sketch
	for i := range sketchKeys {
		for range 10 {
			s.Add(fmt.Append(nil, i))
		}
	}
	s.Add([]byte("new"))
	if c := s.by["new"]; c == nil || c.Count != 11 || c.over != 10 {
		t.Errorf("the new one is %+v, want the count of the one before it and one more", c)
	}
	for _, c := range s.Top(sketchKeys) {
		if c.Key == "new" {
			t.Errorf("named: %+v", c)
		}
	}
}
