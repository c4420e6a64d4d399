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
func (r *Reconciler) replacedVoter(view View) string {
	if len(view.Voters) <= minVoters {
		return ""
	}
	candidate := ""
	for _, server := range view.Voters {
		member, _ := view.memberView(server)
		switch {
		case view.hasWorkingLink(server) && !member.Heartbeat.Leaving && !member.Heartbeat.Goodbye: // this voter remains
		case candidate != "" || view.isConnected(server) || member.Restarting: // a second missing voter, or one that still runs or returns
			return ""
		default:
			candidate = server
		}
	}
	if candidate == "" || candidate == r.options.Server {
		return ""
	}
	member, _ := view.memberView(candidate)
	silence := r.silentFor[candidate]
	switch {
	// RestartWithin is the announced time until the return of the node; zero means that it does not
	// return.
	case member.SinceHeartbeat >= 0 && member.Heartbeat.Server == candidate && member.Heartbeat.Goodbye && member.Heartbeat.RestartWithin == 0:
		return candidate
	case silence <= replaceDelay:
		return ""
	case r.hasLeft(nodeOf(candidate)):
		return candidate
	}
	for server, promotedAt := range r.promotionTimes {
		if slices.Contains(view.Voters, server) && time.Since(promotedAt) < silence {
			return candidate
		}
	}
	return ""
}

// hasLeft reports whether a node has left the cluster as planned, according to gossip.
func (r *Reconciler) hasLeft(node string) bool {
	return slices.ContainsFunc(r.options.Gossip.Members(), func(member gossip.Member) bool {
		return member.ID == node && member.Node && member.Status == gossip.Left
	})
}

// recordChange records the time of a promotion. A removal clears all recorded times: a promotion replaces
// one voter, so it must not justify a second removal.
func (r *Reconciler) recordChange(change configChange) {
	switch change.name {
	case "promote":
		r.promotionTimes[change.server] = time.Now()
	case "remove":
		clear(r.promotionTimes)
	}
}
