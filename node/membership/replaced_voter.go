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
// As a result, at most one voter is removed at a time. A voter that has left is removed as soon as these conditions
// hold. A dead voter is removed only if another server was promoted to a voter after it had died.
func (r *Reconciler) replacedVoter(view View) string {
	if len(view.Voters) <= minVoters {
		return ""
	}
	candidate := view.onlyMissingVoter()
	if candidate == "" || candidate == r.options.Server {
		return ""
	}
	silence := r.silentFor[candidate]
	if r.hasDeparted(view, candidate) || silence > replaceDelay && r.wasVoterPromoted(view, silence) {
		return candidate
	}
	return ""
}

// awaitsReplacement reports whether a voter has left that can only be removed after another server has become a
// voter, because fewer than three voters would remain. The configuration may then have one voter more than
// --max-voters until the removal, which follows at once.
func (r *Reconciler) awaitsReplacement(view View) bool {
	if len(view.Voters) > minVoters {
		return false
	}
	candidate := view.onlyMissingVoter()
	return candidate != "" && candidate != r.options.Server && r.hasDeparted(view, candidate)
}

// hasDeparted reports whether a missing voter has left the cluster as planned: it has sent a goodbye to this
// leader, or gossip shows that it left before this leader was elected.
func (r *Reconciler) hasDeparted(view View, server string) bool {
	hasLeftEarlier := r.silentFor[server] > replaceDelay && r.hasLeft(nodeOf(server))
	return view.isLeavingForGood(server) || hasLeftEarlier
}

// onlyMissingVoter returns the missing voter, if the leader receives heartbeats from all other voters over links
// that work in both directions, and none of those is leaving. Otherwise it returns "". A voter that still sends
// heartbeats, or returns after a restart, is not missing.
func (v View) onlyMissingVoter() string {
	missing := ""
	for _, server := range v.Voters {
		member, _ := v.memberView(server)
		isLeaving := member.Heartbeat.Leaving || member.Heartbeat.Goodbye
		if remains := v.hasWorkingLink(server) && !isLeaving; remains {
			continue
		}
		if missing != "" || v.isConnected(server) || member.Restarting {
			return ""
		}
		missing = server
	}
	return missing
}

// isLeavingForGood reports whether the last heartbeat of a server is a goodbye that announces no restart.
func (v View) isLeavingForGood(server string) bool {
	member, _ := v.memberView(server)
	hb := member.Heartbeat
	isFromServer := member.SinceHeartbeat >= 0 && hb.Server == server
	return isFromServer && hb.Goodbye && hb.RestartWithin == 0
}

// wasVoterPromoted reports whether this leader has promoted a current voter within the given time.
func (r *Reconciler) wasVoterPromoted(view View, within time.Duration) bool {
	for server, promotedAt := range r.promotionTimes {
		if slices.Contains(view.Voters, server) && time.Since(promotedAt) < within {
			return true
		}
	}
	return false
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
