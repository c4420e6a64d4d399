package topk

import (
	"cmp"
	"slices"
)

// sketchKeys is how many keys a sketch has: every one that makes up more than so manieth
// part of what is added is among them.
const sketchKeys = 256

// faint is a count that is as good as none.
const faint = 0.01

// Sketch counts the keys that come most: the space-saving algorithm (Metwally, Agrawal,
// El Abbadi, 2005), whose counts fade. The zero value has none.
type Sketch struct {
	by map[string]*Item
}

// Item is a key with its count, which is too high by over at most.
type Item struct {
	Key         string
	Count, over float64
}

// Add counts a key once more. A new one takes the place of the one with the least.
func (s *Sketch) Add(key []byte) {
	if c := s.by[string(key)]; c != nil {
		c.Count++
		return
	}
	if s.by == nil {
		s.by = make(map[string]*Item, sketchKeys)
	}
	c := &Item{Key: string(key), Count: 1}
	if len(s.by) >= sketchKeys {
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

// Fade leaves that part of every count.
func (s *Sketch) Fade(kept float64) {
	for key, c := range s.by {
		c.Count, c.over = c.Count*kept, c.over*kept
		if c.Count < faint {
			delete(s.by, key)
		}
	}
}

// Total returns the sum of all counts: what was added, faded. It is above zero if there
// are any.
func (s *Sketch) Total() float64 {
	sum := 0.0
	for _, c := range s.by {
		sum += c.Count
	}
	return sum
}

// Top returns at most n keys, those with the highest counts first. One that may owe its
// count to those in whose place it came is left out.
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
