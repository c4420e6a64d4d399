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

// unconfirmedTable has the nodes that do not respond on their peer ports.
type unconfirmedTable struct {
	mu       sync.Mutex // protects attempts
	attempts map[string]identifyAttempt
}

// identifyAttempt describes the requests to one node to identify its process.
type identifyAttempt struct {
	Unconfirmed
	lastAt time.Time // time of the last request
}

// record records the result of one request.
func (t *unconfirmedTable) record(node string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.attempts, node)
		return
	}
	now := time.Now()
	entry, known := t.attempts[node]
	if !known || now.Sub(entry.lastAt) > unconfirmedTTL {
		entry = identifyAttempt{Unconfirmed: Unconfirmed{Node: node, Since: now}}
	}
	entry.Err, entry.lastAt = err, now
	if t.attempts == nil {
		t.attempts = map[string]identifyAttempt{}
	}
	t.attempts[node] = entry
}

// Unconfirmed returns the nodes that are not added because they do not respond on their peer
// ports, sorted by ID. It is safe for concurrent use.
func (r *Reconciler) Unconfirmed() (nodes []Unconfirmed) {
	table := &r.unconfirmedNodes
	table.mu.Lock()
	defer table.mu.Unlock()
	for node, attempt := range table.attempts {
		if time.Since(attempt.lastAt) > unconfirmedTTL {
			delete(table.attempts, node) // gossip no longer shows the node
			continue
		}
		nodes = append(nodes, attempt.Unconfirmed)
	}
	slices.SortFunc(nodes, func(attempt, b Unconfirmed) int { return cmp.Compare(attempt.Node, b.Node) })
	return nodes
}
