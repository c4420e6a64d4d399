package roster

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// unconfirmedShown is for how long a node counts as unconfirmed after the last attempt to ask it.
const unconfirmedTTL = 5 * confirmInterval

// Unconfirmed is a node that gossip shows, and that is not added to Raft's configuration because
// it does not answer at its peer port.
type Unconfirmed struct {
	Node string
	// Err is the error of the last attempt, and Since is when the attempts began to fail.
	Err   error
	Since time.Time
}

// unconfirmed are the nodes that do not answer at their peer ports.
type unconfirmedNodes struct {
	mu       sync.Mutex
	attempts map[string]attempt
}

// attempts are those to ask one node which process it is.
type attempt struct {
	Unconfirmed
	last time.Time
}

// note takes the result of one attempt.
func (u *unconfirmedNodes) record(node string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil {
		delete(u.attempts, node)
		return
	}
	now := time.Now()
	a, known := u.attempts[node]
	if !known || now.Sub(a.last) > unconfirmedTTL {
		a = attempt{Unconfirmed: Unconfirmed{Node: node, Since: now}}
	}
	a.Err, a.last = err, now
	if u.attempts == nil {
		u.attempts = map[string]attempt{}
	}
	u.attempts[node] = a
}

// Unconfirmed returns the nodes that are not added because they do not answer at their peer
// ports, ordered by id. It may be called from any goroutine.
func (k *Reconciler) Unconfirmed() (all []Unconfirmed) {
	u := &k.unconfirmed
	u.mu.Lock()
	defer u.mu.Unlock()
	for node, a := range u.attempts {
		if time.Since(a.last) > unconfirmedTTL {
			delete(u.attempts, node) // gossip does not show it any more
			continue
		}
		all = append(all, a.Unconfirmed)
	}
	slices.SortFunc(all, func(a, b Unconfirmed) int { return cmp.Compare(a.Node, b.Node) })
	return all
}
