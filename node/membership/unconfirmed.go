package membership

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// unconfirmedTTL is how long a node counts as unconfirmed after the last request to it.
const unconfirmedTTL = 5 * confirmInterval

// Unconfirmed is a node that gossip shows, but that is not added to the Raft configuration because
// it does not respond on its peer port.
type Unconfirmed struct {
	Node string
	// Err is the error of the last request, and Since the time of the first failed request.
	Err   error
	Since time.Time
}

// unconfirmedNodes has the nodes that do not respond on their peer ports.
type unconfirmedNodes struct {
	mu       sync.Mutex // protects attempts
	attempts map[string]attempt
}

// attempt has the requests to one node to identify its process.
type attempt struct {
	Unconfirmed
	last time.Time // time of the last request
}

// record records the result of one request.
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

// Unconfirmed returns the nodes that are not added because they do not respond on their peer
// ports, sorted by ID. It is safe for concurrent use.
func (k *Reconciler) Unconfirmed() (all []Unconfirmed) {
	u := &k.unconfirmed
	u.mu.Lock()
	defer u.mu.Unlock()
	for node, a := range u.attempts {
		if time.Since(a.last) > unconfirmedTTL {
			delete(u.attempts, node) // gossip no longer shows the node
			continue
		}
		all = append(all, a.Unconfirmed)
	}
	slices.SortFunc(all, func(a, b Unconfirmed) int { return cmp.Compare(a.Node, b.Node) })
	return all
}
