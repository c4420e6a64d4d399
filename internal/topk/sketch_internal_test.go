package topk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"shardway/internal/raceflag"
)

// A key with a large share is found among any number of rare keys, and its count is not too low.
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
	if len(s.items) > maxKeys {
		t.Errorf("%d keys are kept", len(s.items))
	}
	top := s.Top(2)
	if len(top) != 2 || top[0].Key != "first" || top[1].Key != "second" || top[0].Count < float64(n/10) || top[1].Count < float64(n/20) {
		t.Errorf("most: %+v", top)
	}
	for range 1000 {
		s.Scale(0.9)
	}
	if len(s.items) != 0 {
		t.Errorf("%d keys are left after all has faded", len(s.items))
	}
}

// A count is never too low, and too high by at most over, in any order of keys. Otherwise a key that
// replaced another one would stay far from its rate.
func TestSketchReportsItsError(t *testing.T) {
	var s Sketch
	rng, exact := rand.New(rand.NewPCG(1, 2)), map[string]float64{}
	for i := range 20_000 {
		key := strconv.Itoa(rng.IntN(1 + rng.IntN(4*maxKeys)))
		s.Add([]byte(key))
		exact[key]++
		if i%5000 == 4999 {
			s.Scale(0.5)
			for k := range exact {
				exact[k] *= 0.5
			}
		}
	}
	if len(s.items) != maxKeys {
		t.Errorf("%d keys are kept, want %d", len(s.items), maxKeys)
	}
	for key, c := range s.items {
		if n := exact[key]; c.Count < n || c.Count > n+c.maxOverestimate {
			t.Errorf("%s came %v times, and is counted %v, too high by %v at most", key, n, c.Count, c.maxOverestimate)
		}
	}
	all := s.Top(2 * maxKeys)
	for i, c := range all {
		if c.Count <= 2*c.maxOverestimate {
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

// A key that occurred once in a full sketch is not returned with the count of the replaced key.
func TestNewKeyOfFullSketchIsNotReported(t *testing.T) {
	var s Sketch
	for i := range maxKeys {
		for range 10 {
			s.Add(fmt.Append(nil, i))
		}
	}
	s.Add([]byte("new"))
	if c := s.items["new"]; c == nil || c.Count != 11 || c.maxOverestimate != 10 {
		t.Errorf("the new one is %+v, want the count of the one before it and one more", c)
	}
	for _, c := range s.Top(maxKeys) {
		if c.Key == "new" {
			t.Errorf("named: %+v", c)
		}
	}
}
