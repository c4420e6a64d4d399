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
	forgetWithin = time.Minute
	// never is what Serf takes for longer than any member is gone.
	never = time.Duration(math.MaxInt64)
)

// memory decides for how long Serf remembers, and looks for, a member that is gone.
//
// Serf has a word of its own for one that is to be forgotten (RemoveFailedNodePrune). It
// goes to everybody, and who still holds that member to be alive sleeps for 1.3 s with
// Serf's lock in its hand: meanwhile all that asks it for members stands still.
type memory struct {
	keep func(id string) bool // nil: nobody

	mu     sync.Mutex
	forget map[string]time.Time // until when, by id
}

var _ serf.ReconnectTimeoutOverrider = (*memory)(nil)

// ReconnectTimeout returns after how long Serf forgets a member that is gone.
func (m *memory) ReconnectTimeout(member *serf.Member, timeout time.Duration) time.Duration {
	switch {
	case m.forgets(member.Name):
		return -1 // Serf waits until more than it has gone by.
	case m.keep != nil && m.keep(member.Name):
		return never
	}
	return timeout
}

func (m *memory) forgets(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Before(m.forget[id]) // of anybody else that is the year 1
}

// drop has a member forgotten.
func (m *memory) drop(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for other, until := range m.forget {
		if !now.Before(until) {
			delete(m.forget, other)
		}
	}
	if m.forget == nil {
		m.forget = map[string]time.Time{}
	}
	m.forget[id] = now.Add(forgetWithin)
}

// learn takes note of who came: under the name of one that was to be forgotten there
// is another one now.
func (m *memory) learn(e serf.Event) {
	joined, ok := e.(serf.MemberEvent)
	if !ok || joined.Type != serf.EventMemberJoin {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, member := range joined.Members {
		delete(m.forget, member.Name)
	}
}

// hides reports a member that is gone and that Serf will forget when it next looks.
func (m *memory) hides(member serf.Member) bool {
	return (member.Status == serf.StatusLeft || member.Status == serf.StatusFailed) && m.forgets(member.Name)
}
