package membership

import (
	"slices"
	"time"

	"shardway/node/gossip"
)

// replaceDelay is how long a voter must not have been heard before its replacement becomes
// permanent, unless the leader has received its goodbye.
const replaceDelay = 10 * time.Second

// replacedVoter returns a voter that can be removed because another server has replaced it, or "".
// At least three voters must remain, and all of them must be heard with working links. So the
// removal never costs the quorum, and at most one voter is removed at a time. A voter that has
// left is removed as soon as this holds. A dead voter is removed only if another server was
// promoted after it had died.
func (k *Reconciler) replacedVoter(r View) string {
	if len(r.Voters) <= minVoters {
		return ""
	}
	candidate := ""
	for _, server := range r.Voters {
		v, _ := r.memberView(server)
		switch {
		case r.hasWorkingLink(server) && !v.Heartbeat.Leaving && !v.Heartbeat.Goodbye:
		case candidate != "" || r.isHeard(server) || v.Restarting:
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
	case v.SinceHeartbeat >= 0 && v.Heartbeat.Server == candidate && v.Heartbeat.Goodbye && v.Heartbeat.Back == 0:
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

// hasLeft reports whether gossip shows that a node has left.
func (k *Reconciler) hasLeft(node string) bool {
	return slices.ContainsFunc(k.o.Gossip.Members(), func(m gossip.Member) bool {
		return m.ID == node && m.Node && m.Status == gossip.Left
	})
}

// recordChange records the time of a promotion. A removal clears these times, because each
// promotion compensates one removal.
func (k *Reconciler) recordChange(c configChange) {
	switch c.name {
	case "promote":
		k.promotedAt[c.server] = time.Now()
	case "remove":
		clear(k.promotedAt)
	}
}
