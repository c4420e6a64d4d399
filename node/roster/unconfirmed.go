package roster

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// unconfirmedShown is for how long a node counts as unconfirmed after the last attempt to ask it.
const unconfirmedShown = 5 * confirmEvery

// Unconfirmed is a node that gossip shows, and that is not added to Raft's configuration because
// it does not answer at its peer port.
type Unconfirmed struct {
	Node string
	// Err is the error of the last attempt, and Since is when the attempts began to fail.
	Err   error
	Since time.Time
}

// unconfirmed are the nodes that do not answer at their peer ports.
type unconfirmed struct {
	mu  sync.Mutex
	all map[string]attempts
}

// attempts are those to ask one node which process it is.
type attempts struct {
	Unconfirmed
	last time.Time
}

// note takes the result of one attempt.
func (u *unconfirmed) note(node string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil {
		delete(u.all, node)
		return
	}
	now := time.Now()
	a, known := u.all[node]
	if !known || now.Sub(a.last) > unconfirmedShown {
		a = attempts{Unconfirmed: Unconfirmed{Node: node, Since: now}}
	}
	a.Err, a.last = err, now
	if u.all == nil {
		u.all = map[string]attempts{}
	}
	u.all[node] = a
}

// Unconfirmed returns the nodes that are not added because they do not answer at their peer
// ports, ordered by id. It may be called from any goroutine.
func (k *Keeper) Unconfirmed() (all []Unconfirmed) {
	u := &k.unconfirmed
	u.mu.Lock()
	defer u.mu.Unlock()
	for node, a := range u.all {
		if time.Since(a.last) > unconfirmedShown {
			delete(u.all, node) // gossip does not show it any more
			continue
		}
		all = append(all, a.Unconfirmed)
	}
	slices.SortFunc(all, func(a, b Unconfirmed) int { return cmp.Compare(a.Node, b.Node) })
	return all
}
