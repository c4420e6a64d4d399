package gossip

import (
	"math"
	"sync"
	"time"

	"github.com/hashicorp/serf/serf"
)

const (
	// forgetAfter is how long a member that is gone is remembered, and looked for.
	forgetAfter = time.Hour
	// forgetWithin is how long after Forget a member may still turn out to be gone:
	// several times what gossip takes to see that.
	forgetGrace = time.Minute
	// never is what Serf takes for longer than any member is gone.
	forever = time.Duration(math.MaxInt64)
)

// memory decides for how long Serf remembers, and looks for, a member that is gone.
//
// Serf has a word of its own for one that is to be forgotten (RemoveFailedNodePrune). It
// goes to everybody, and who still holds that member to be alive sleeps for 1.3 s with
// Serf's lock in its hand: meanwhile all that asks it for members stands still.
type retention struct {
	keep func(id string) bool // nil: nobody

	mu          sync.Mutex
	forgetUntil map[string]time.Time // until when, by id
}

var _ serf.ReconnectTimeoutOverrider = (*retention)(nil)

// ReconnectTimeout returns after how long Serf forgets a member that is gone.
func (m *retention) ReconnectTimeout(member *serf.Member, timeout time.Duration) time.Duration {
	switch {
	case m.isForgotten(member.Name):
		return -1 // Serf waits until more than it has gone by.
	case m.keep != nil && m.keep(member.Name):
		return forever
	}
	return timeout
}

func (m *retention) isForgotten(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(m.forgetUntil[id]) // of anybody else that is the year 1
}

// drop has a member forgotten.
func (m *retention) markForgotten(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for other, until := range m.forgetUntil {
		if !now.Before(until) {
			delete(m.forgetUntil, other)
		}
	}
	if m.forgetUntil == nil {
		m.forgetUntil = map[string]time.Time{}
	}
	m.forgetUntil[id] = now.Add(forgetGrace)
}

// learn takes note of who came: under the name of one that was to be forgotten there
// is another one now.
func (m *retention) onEvent(e serf.Event) {
	joined, ok := e.(serf.MemberEvent)
	if !ok || joined.Type != serf.EventMemberJoin {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, member := range joined.Members {
		delete(m.forgetUntil, member.Name)
	}
}

// hides reports a member that is gone and that Serf will forget when it next looks.
func (m *retention) isHidden(member serf.Member) bool {
	return (member.Status == serf.StatusLeft || member.Status == serf.StatusFailed) && m.isForgotten(member.Name)
}
