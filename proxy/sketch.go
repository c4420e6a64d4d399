package proxy

import (
	"cmp"
	"slices"
)

// sketchKeys is how many keys a sketch has: every one that makes up more than so manieth
// part of what is added is among them.
const sketchKeys = 256

// faint is a count that is as good as none.
const faint = 0.01

// sketch counts the keys that come most: the space-saving algorithm (Metwally, Agrawal,
// El Abbadi, 2005), whose counts fade. The zero value has none.
type sketch struct {
	by map[string]*counted
}

// counted is a key with its count, which is too high by over at most.
type counted struct {
	key         string
	count, over float64
}

// add counts a key once more. A new one takes the place of the one with the least.
func (s *sketch) add(key []byte) {
	if c := s.by[string(key)]; c != nil {
		c.count++
		return
	}
	if s.by == nil {
		s.by = make(map[string]*counted, sketchKeys)
	}
	c := &counted{key: string(key), count: 1}
	if len(s.by) >= sketchKeys {
		var least *counted
		for _, o := range s.by {
			if least == nil || o.count < least.count {
				least = o
			}
		}
		delete(s.by, least.key)
		c.count, c.over = least.count+1, least.count
	}
	s.by[c.key] = c
}

// fade leaves that part of every count.
func (s *sketch) fade(kept float64) {
	for key, c := range s.by {
		c.count, c.over = c.count*kept, c.over*kept
		if c.count < faint {
			delete(s.by, key)
		}
	}
}

// total returns the sum of all counts: what was added, faded. It is above zero if there
// are any.
func (s *sketch) total() float64 {
	sum := 0.0
	for _, c := range s.by {
		sum += c.count
	}
	return sum
}

// most returns at most n keys, those with the highest counts first. One that may owe its
// count to those in whose place it came is left out.
func (s *sketch) most(n int) []counted {
	var all []counted
	for _, c := range s.by {
		if c.count > 2*c.over {
			all = append(all, *c)
		}
	}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.key, b.key)) })
	return all[:min(len(all), n)]
}
