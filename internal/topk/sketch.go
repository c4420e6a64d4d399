package topk

import (
	"cmp"
	"slices"
)

// maxKeys is the number of keys in a Sketch. A key with a share of more than 1/maxKeys is always among
// them.
const maxKeys = 256

// minCount is the count below which a key is forgotten.
const minCount = 0.01

// Sketch counts the most frequent keys. The zero value is empty.
type Sketch struct {
	by map[string]*Item
}

// Item is a key with its estimated count, which is too high by at most over.
type Item struct {
	Key         string
	Count, over float64
}

// Add counts a key once. If the sketch is full, a new key replaces the key with the lowest count and
// starts from that count.
func (s *Sketch) Add(key []byte) {
	if c := s.by[string(key)]; c != nil {
		c.Count++
		return
	}
	if s.by == nil {
		s.by = make(map[string]*Item, maxKeys)
	}
	c := &Item{Key: string(key), Count: 1}
	if len(s.by) >= maxKeys {
		var least *Item
		for _, o := range s.by {
			if least == nil || o.Count < least.Count {
				least = o
			}
		}
		delete(s.by, least.Key)
		c.Count, c.over = least.Count+1, least.Count
	}
	s.by[c.Key] = c
}

// Fade multiplies every count by kept.
func (s *Sketch) Fade(kept float64) {
	for key, c := range s.by {
		c.Count, c.over = c.Count*kept, c.over*kept
		if c.Count < minCount {
			delete(s.by, key)
		}
	}
}

// Total returns the sum of all counts. It is above zero if the sketch contains a key.
func (s *Sketch) Total() float64 {
	sum := 0.0
	for _, c := range s.by {
		sum += c.Count
	}
	return sum
}

// Top returns up to n keys, with the highest counts first. It omits a key if most of its count may
// belong to the keys that it replaced.
func (s *Sketch) Top(n int) []Item {
	var all []Item
	for _, c := range s.by {
		if c.Count > 2*c.over {
			all = append(all, *c)
		}
	}
	slices.SortFunc(all, func(a, b Item) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key)) })
	return all[:min(len(all), n)]
}
