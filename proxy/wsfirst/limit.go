package wsfirst

import (
	"net/netip"
	"sync"

	"shardway/internal/linkedlist"
)

// MaxWaiting is the maximum number of WebSockets of a node that wait for their first message. Their
// messages take up to MaxWaiting times MaxMessage bytes of memory.
const MaxWaiting = 1024

// Limit limits the number of WebSockets that wait for their first message. The zero value is ready. Any
// goroutine may use it.
type Limit struct {
	// Max is the maximum number; zero means MaxWaiting.
	Max int

	mu       sync.Mutex
	count    int
	entries  uint64 // number of all entries so far
	byOrigin map[netip.Prefix]*linkedlist.List[*Place]
}

// Place is the slot of one WebSocket within a Limit. Limit.mu protects it.
type Place struct {
	element linkedlist.Element[*Place] // in no list after the slot was left or evicted
	origin  netip.Prefix
	entry   uint64 // number of the entry, which increases
	evict   func()
	evicted bool
}

// Enter takes a slot for a client's WebSocket. At the limit, it evicts the longest waiting
// WebSocket of the origin that has the most, by calling evict of its Place, which must not block.
// Enter returns the number of evicted WebSockets. The caller must call Leave.
func (l *Limit) Enter(place *Place, client []byte, evict func()) (evicted int) {
	*place = Place{origin: originOf(client), evict: evict}
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.Max
	if limit == 0 {
		limit = MaxWaiting
	}
	for l.count >= limit {
		oldest := l.largestOrigin().First()
		l.remove(oldest)
		oldest.evicted = true
		oldest.evict()
		evicted++
	}
	l.entries++
	place.entry = l.entries
	list := l.byOrigin[place.origin]
	if list == nil {
		if l.byOrigin == nil {
			l.byOrigin = make(map[netip.Prefix]*linkedlist.List[*Place])
		}
		list = &linkedlist.List[*Place]{}
		l.byOrigin[place.origin] = list
	}
	list.PushBack(&place.element, place)
	l.count++
	return evicted
}

// Leave gives up the slot, and reports whether the WebSocket was evicted. evict is not called after
// Leave has returned.
func (l *Limit) Leave(place *Place) (evicted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if place.element.InList() {
		l.remove(place)
	}
	return place.evicted
}

// Len returns the number of WebSockets that wait.
func (l *Limit) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// largestOrigin returns the slots of the origin that has the most. Among equals, it prefers the
// origin of the oldest slot. The caller must hold mu, and at least one slot must be taken.
func (l *Limit) largestOrigin() *linkedlist.List[*Place] {
	var largest *linkedlist.List[*Place]
	for _, list := range l.byOrigin {
		isLarger := largest == nil || list.Len() > largest.Len() ||
			list.Len() == largest.Len() && list.First().entry < largest.First().entry
		if isLarger {
			largest = list
		}
	}
	return largest
}

// remove frees a slot. The caller must hold mu.
func (l *Limit) remove(place *Place) {
	place.element.Remove()
	l.count--
	if l.byOrigin[place.origin].Len() == 0 {
		delete(l.byOrigin, place.origin)
	}
}

// originOf returns the network that a client belongs to: its IPv4 address, or its IPv6 /64. All clients
// without an IP address have one origin.
func originOf(client []byte) netip.Prefix {
	addr, err := netip.ParseAddr(string(client))
	if err != nil {
		return netip.Prefix{}
	}
	bits := 32
	if addr = addr.Unmap().WithZone(""); addr.Is6() {
		bits = 64
	}
	origin, _ := addr.Prefix(bits) // bits is valid for the address
	return origin
}
