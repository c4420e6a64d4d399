package gossip

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/hashicorp/memberlist"
)

// restoreClock sets the Lamport time of Serf to at least the time that it had in the previous
// process. Messages of this member must be later than its previous ones, even if the first members
// that it contacts have not seen all of them. Serf receives the time like a state exchange with
// another member that contains nothing else.
func restoreClock(d memberlist.Delegate, clock uint64) {
	if clock == 0 {
		return
	}
	const exchange = "\x02\x81\xa5LTime\xcf" // push-pull message with the MessagePack value {"LTime": uint64}
	d.MergeRemoteState(binary.BigEndian.AppendUint64([]byte(exchange), clock+1), false)
}

// rejoin contacts the members of the previous process in random order until one has responded.
func (g *Gossip) rejoin(ctx context.Context, last []seenMember) {
	for _, s := range shuffled(last) {
		if ctx.Err() != nil {
			return
		}
		if s.name == g.o.Name || s.addr == g.self || strings.Contains(s.name, "/") { // memberlist would parse it as an address
			continue
		}
		_, err := g.serf.Memberlist().Join([]string{s.name + "/" + s.addr.String()})
		g.log.Debug().Err(err).Str("peer", s.name).Stringer("addr", s.addr).Msg("known member contacted")
		if err == nil {
			return
		}
	}
}
