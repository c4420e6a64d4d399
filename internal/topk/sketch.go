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
	items map[string]*Item
}

// Item is a key with its estimated count. The estimate exceeds the actual count by at most
// maxOverestimate.
type Item struct {
	Key                    string
	Count, maxOverestimate float64
}

// Add counts a key once. If the sketch is full, a new key replaces the key with the lowest count and
// starts from that count.
func (s *Sketch) Add(key []byte) {
	if item := s.items[string(key)]; item != nil {
		item.Count++
		return
	}
	if s.items == nil {
		s.items = make(map[string]*Item, maxKeys)
	}
	item := &Item{Key: string(key), Count: 1}
	if len(s.items) >= maxKeys {
		var least *Item
		for _, other := range s.items {
			if least == nil || other.Count < least.Count {
				least = other
			}
		}
		delete(s.items, least.Key)
		item.Count, item.maxOverestimate = least.Count+1, least.Count
	}
	s.items[item.Key] = item
}

// Scale multiplies every count by factor, so that old requests count less than new ones. It forgets
// keys below minCount.
func (s *Sketch) Scale(factor float64) {
	for key, item := range s.items {
		item.Count, item.maxOverestimate = item.Count*factor, item.maxOverestimate*factor
		if item.Count < minCount {
			delete(s.items, key)
		}
	}
}

// Total returns the sum of all counts. It is above zero if the sketch contains a key.
func (s *Sketch) Total() float64 {
	sum := 0.0
	for _, item := range s.items {
		sum += item.Count
	}
	return sum
}

// Top returns up to limit keys, with the highest counts first. It omits a key if most of its count
// may belong to the keys that it replaced.
func (s *Sketch) Top(limit int) []Item {
	var all []Item
	for _, item := range s.items {
		if item.Count > 2*item.maxOverestimate {
			all = append(all, *item)
		}
	}
	slices.SortFunc(all, func(a, b Item) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key)) })
	return all[:min(len(all), limit)]
}
