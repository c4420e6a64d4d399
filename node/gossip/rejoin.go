package gossip

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/hashicorp/memberlist"
)

// witness sets Serf's clock to no less than it was in an earlier life: what this member says of
// itself must be later than what it said then, also where the first that it meets have seen
// less of that than others. It is said to Serf as by another member, in an exchange of state
// that tells of nothing else.
func restoreClock(d memberlist.Delegate, clock uint64) {
	if clock == 0 {
		return
	}
	const exchange = "\x02\x81\xa5LTime\xcf" // MessagePack: of this kind, {"LTime": uint64}
	d.MergeRemoteState(binary.BigEndian.AppendUint64([]byte(exchange), clock+1), false)
}

// rejoin asks those who were there last, in random order, until one has answered.
func (g *Gossip) rejoin(ctx context.Context, last []seenMember) {
	for _, s := range shuffled(last) {
		if ctx.Err() != nil {
			return
		}
		if s.name == g.o.Name || s.addr == g.self || strings.Contains(s.name, "/") { // which memberlist takes for another address
			continue
		}
		_, err := g.serf.Memberlist().Join([]string{s.name + "/" + s.addr.String()})
		g.log.Debug().Err(err).Str("peer", s.name).Stringer("addr", s.addr).Msg("known member contacted")
		if err == nil {
			return
		}
	}
}
