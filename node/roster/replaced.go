package roster

import (
	"slices"
	"time"

	"shardway/node/gossip"
)

// replaceAfter is how long a voter must not have been heard before its replacement takes its
// place for good, unless the leader has heard its goodbye.
const replaceAfter = 10 * time.Second

// replaced returns a voter that is removed because the others do without it, or "". At least
// three voters must remain, and all of them must be heard and echo the leader's answers: then the
// removal never costs the quorum, and voters go one at a time. A voter that has left goes as soon
// as that holds. A voter that is dead goes only if another server was promoted since it died.
func (k *Keeper) replaced(r View) string {
	if len(r.Voters) <= fewestVoters {
		return ""
	}
	gone := ""
	for _, server := range r.Voters {
		v, _ := r.of(server)
		switch {
		case r.echoes(server) && !v.Heartbeat.Leaving && !v.Heartbeat.Goodbye:
		case gone != "" || r.hears(server) || v.Restarting:
			return ""
		default:
			gone = server
		}
	}
	if gone == "" || gone == k.o.Server {
		return ""
	}
	v, _ := r.of(gone)
	absent := k.absent[gone]
	switch {
	case v.SinceHeartbeat >= 0 && v.Heartbeat.Server == gone && v.Heartbeat.Goodbye && v.Heartbeat.Back == 0:
		return gone
	case absent <= replaceAfter:
		return ""
	case k.left(nodeOf(gone)):
		return gone
	}
	for server, at := range k.promoted {
		if slices.Contains(r.Voters, server) && time.Since(at) < absent {
			return gone
		}
	}
	return ""
}

// left reports that gossip shows a node that has left.
func (k *Keeper) left(node string) bool {
	return slices.ContainsFunc(k.o.Gossip.Members(), func(m gossip.Member) bool {
		return m.ID == node && m.Node && m.Status == gossip.Left
	})
}

// noteChange notes who became a voter, and forgets what a removal has used up.
func (k *Keeper) noteChange(c change) {
	switch c.what {
	case "promote":
		k.promoted[c.server] = time.Now()
	case "remove":
		clear(k.promoted) // each promotion makes up for one removal
	}
}
