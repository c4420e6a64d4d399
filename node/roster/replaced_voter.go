package roster

import (
	"slices"
	"time"

	"shardway/node/gossip"
)

// replaceAfter is how long a voter must not have been heard before its replacement takes its
// place for good, unless the leader has heard its goodbye.
const replaceDelay = 10 * time.Second

// replaced returns a voter that is removed because the others do without it, or "". At least
// three voters must remain, and all of them must be heard and echo the leader's answers: then the
// removal never costs the quorum, and voters go one at a time. A voter that has left goes as soon
// as that holds. A voter that is dead goes only if another server was promoted since it died.
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

// left reports that gossip shows a node that has left.
func (k *Reconciler) hasLeft(node string) bool {
	return slices.ContainsFunc(k.o.Gossip.Members(), func(m gossip.Member) bool {
		return m.ID == node && m.Node && m.Status == gossip.Left
	})
}

// noteChange notes who became a voter, and forgets what a removal has used up.
func (k *Reconciler) recordChange(c configChange) {
	switch c.name {
	case "promote":
		k.promotedAt[c.server] = time.Now()
	case "remove":
		clear(k.promotedAt) // each promotion makes up for one removal
	}
}
