package gossip

import (
	"math"
	"sync"
	"time"

	"github.com/hashicorp/serf/serf"
)

const (
	// forgetAfter is how long Serf remembers a left or failed member and tries to reconnect to it.
	forgetAfter = time.Hour
	// forgetGrace is how long after Forget a member may still fail and is then forgotten. It is
	// several times the failure detection time of gossip.
	forgetGrace = time.Minute
	// forever is longer than any member can be absent.
	forever = time.Duration(math.MaxInt64)
)

// retention decides how long Serf remembers a left or failed member and tries to reconnect to it.
//
// Serf has a message to forget a member (RemoveFailedNodePrune), but it is not used. It is sent to
// all members, and a member that still shows the forgotten one as alive sleeps for 1.3 s while it
// holds the lock of Serf. This blocks all calls of Members.
type retention struct {
	retainForever func(id string) bool // nil means that no member is kept

	mu          sync.Mutex           // protects forgetUntil
	forgetUntil map[string]time.Time // by member ID
}

var _ serf.ReconnectTimeoutOverrider = (*retention)(nil)

// ReconnectTimeout returns how long Serf remembers a left or failed member.
func (r *retention) ReconnectTimeout(member *serf.Member, timeout time.Duration) time.Duration {
	switch {
	case r.mustForget(member.Name):
		return -1 // Serf forgets a member when its absence exceeds this value
	case r.retainForever != nil && r.retainForever(member.Name):
		return forever
	}
	return timeout
}

// mustForget reports whether Serf must forget a member at its next check.
func (r *retention) mustForget(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.forgetUntil[id]) // the zero time for other members
}

// markForgotten makes Serf forget a member that has left or failed, or does so within forgetGrace.
func (r *retention) markForgotten(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for other, until := range r.forgetUntil {
		if !now.Before(until) {
			delete(r.forgetUntil, other)
		}
	}
	if r.forgetUntil == nil {
		r.forgetUntil = map[string]time.Time{}
	}
	r.forgetUntil[id] = now.Add(forgetGrace)
}

// onEvent handles an event of Serf. A member that joins is no longer forgotten, because it is
// another process.
func (r *retention) onEvent(e serf.Event) {
	memberEvent, ok := e.(serf.MemberEvent)
	if !ok || memberEvent.Type != serf.EventMemberJoin {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, member := range memberEvent.Members {
		delete(r.forgetUntil, member.Name)
	}
}

// isExpired reports whether a member has left or failed, and Serf will forget it at its next check.
// Members omits it already now.
func (r *retention) isExpired(member serf.Member) bool {
	return (member.Status == serf.StatusLeft || member.Status == serf.StatusFailed) && r.mustForget(member.Name)
}
