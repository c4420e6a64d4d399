package membership

import (
	"slices"
	"time"

	"shardway/node/gossip"
)

// replaceDelay is how long the leader must have received no heartbeat from a dead voter before it removes
// the voter, whose vote another server has taken over. A voter that has sent a goodbye (the message of a
// node that stops as planned) is removed without this delay.
const replaceDelay = 10 * time.Second

// replacedVoter returns a voter that can be removed because another server has replaced it, or "". Two
// conditions ensure that the removal never costs the quorum:
//
//   - At least three voters remain.
//   - The leader receives heartbeats from all of them, over links that work in both directions.
//
// So at most one voter is removed at a time. A voter that has left is removed as soon as these conditions
// hold. A dead voter is removed only if another server was promoted to a voter after it had died.
func (k *Reconciler) replacedVoter(r View) string {
	if len(r.Voters) <= minVoters {
		return ""
	}
	candidate := ""
	for _, server := range r.Voters {
		v, _ := r.memberView(server)
		switch {
		case r.hasWorkingLink(server) && !v.Heartbeat.Leaving && !v.Heartbeat.Goodbye: // this voter remains
		case candidate != "" || r.isConnected(server) || v.Restarting: // a second missing voter, or one that still runs or returns
			return ""
		default:
			candidate = server
		}
	}
	if candidate == "" || candidate == k.o.Server {
		return ""
	}
	v, _ := r.memberView(candidate)
	unheard := k.unheardFor[candidate]
	switch {
	// Back is the announced time until the return of the node; zero means that it does not return.
	case v.SinceHeartbeat >= 0 && v.Heartbeat.Server == candidate && v.Heartbeat.Goodbye && v.Heartbeat.RestartWithin == 0:
		return candidate
	case unheard <= replaceDelay:
		return ""
	case k.hasLeft(nodeOf(candidate)):
		return candidate
	}
	for server, at := range k.promotedAt {
		if slices.Contains(r.Voters, server) && time.Since(at) < unheard {
			return candidate
		}
	}
	return ""
}

// hasLeft reports whether a node has left the cluster as planned, according to gossip.
func (k *Reconciler) hasLeft(node string) bool {
	return slices.ContainsFunc(k.o.Gossip.Members(), func(m gossip.Member) bool {
		return m.ID == node && m.Node && m.Status == gossip.Left
	})
}

// recordChange records the time of a promotion. A removal clears all recorded times: a promotion replaces
// one voter, so it must not justify a second removal.
func (k *Reconciler) recordChange(c configChange) {
	switch c.name {
	case "promote":
		k.promotedAt[c.server] = time.Now()
	case "remove":
		clear(k.promotedAt)
	}
}
