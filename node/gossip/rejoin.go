package gossip

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/hashicorp/memberlist"
)

// restoreLamportTime sets the Lamport time of Serf to at least the time that it had in the previous
// process. Messages of this member must be later than its previous ones, even if the first members
// that it contacts have not seen all of them. Serf receives the time like a state exchange with
// another member that contains nothing else.
func restoreLamportTime(delegate memberlist.Delegate, clock uint64) {
	if clock == 0 {
		return
	}
	const pushPullHeader = "\x02\x81\xa5LTime\xcf" // push-pull message with the MessagePack value {"LTime": uint64}
	delegate.MergeRemoteState(binary.BigEndian.AppendUint64([]byte(pushPullHeader), clock+1), false)
}

// rejoinPreviousMembers contacts the members of the previous process in random order until one has responded.
func (g *Gossip) rejoinPreviousMembers(ctx context.Context, previous []seenMember) {
	for _, member := range shuffled(previous) {
		if ctx.Err() != nil {
			return
		}
		if member.name == g.options.Name || member.addr == g.selfAddr || strings.Contains(member.name, "/") { // memberlist would parse it as an address
			continue
		}
		_, err := g.serf.Memberlist().Join([]string{member.name + "/" + member.addr.String()})
		g.log.Debug().Err(err).Str("peer", member.name).Stringer("addr", member.addr).Msg("known member contacted")
		if err == nil {
			return
		}
	}
}
