package ack

import (
	"cmp"
	"slices"

	"shardway/shardmap"
)

// took keeps what a node gives up shards with, in the place of what it told before. What
// comes late must not take the place of what the node believes to be here: it does not send
// that again.
func (m *member) took(r Releases) {
	if old := m.releases; old != nil {
		late := m.handed()
		if r.Server == old.Server {
			late = r.Boot < old.Boot || r.Boot == old.Boot && r.Proposal < old.Proposal
		}
		if late {
			return
		}
	}
	m.releases, m.digest = &r, r.Digest()
}

// handed reports that the leader has what the newest heartbeat has the digest of, bound to
// this very server, boot and acknowledgement.
func (m *member) handed() bool {
	r := m.releases
	return r != nil && m.beat.Released == m.digest && r.Server == m.beat.Server && r.Boot == m.beat.Boot && r.Proposal == m.beat.Acked
}

// counts reports whether the acknowledgement of e, the open proposal, counts: it is there,
// and so is what the node gives up its shards with.
func (m *member) counts(e shardmap.Epoch) bool {
	return m.acked(e) && (m.beat.Acked != e || m.beat.Released == [32]byte{} || m.handed())
}

// handsOver returns with which releases the shards that move pass on, and the servers that
// get them: those which have acknowledged p. Of a shard that is taken in any other way than
// by the acknowledgement of its owner nobody knows what was released.
func (l *Leader) handsOver(base, p *shardmap.Map) (released []Released, servers []string) {
	total := room{}
	for _, m := range base.Members() {
		n := l.node(m.ID)
		if !n.handed() || n.beat.Acked != p.Epoch() {
			continue
		}
		for _, r := range n.releases.Shards {
			to := l.heir(base, p, n, r.Shard)
			if to == "" {
				continue
			}
			if !total.takes(r.Note) {
				l.emit(Noted{Kind: NoteOver, Node: n.id, Shard: r.Shard})
				continue
			}
			released, servers = append(released, r), append(servers, to)
		}
	}
	slices.SortFunc(released, func(a, b Released) int { return cmp.Compare(a.Shard, b.Shard) })
	slices.Sort(servers)
	return released, slices.Compact(servers)
}

// heir returns the server that gets a shard of n's, empty: it does not move.
func (l *Leader) heir(base, p *shardmap.Map, n *member, s shardmap.Shard) string {
	if int(s) >= p.Len() || base.Owner(s) != n.id || p.Owner(s) == n.id || p.Owner(s) == "" {
		return ""
	}
	return l.node(p.Owner(s)).beat.Server
}
