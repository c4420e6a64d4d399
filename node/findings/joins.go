package findings

import (
	"time"

	"shardway/ack/join"
	"shardway/diagnosis"
)

// joinLongAfter is how long a join request waits until its finding becomes a warning.
const joinLongAfter = 5 * time.Minute

// addJoinRequests adds the state of the join request of this node, or the requests of other nodes.
func (m *Monitor) addJoinRequests(now time.Time, in *diagnosis.Inputs, isUpToDate bool) {
	if status, ok := m.options.OwnJoin.Status(); ok && in.Bootstrap != nil {
		in.OwnJoin = &diagnosis.OwnJoin{
			Ticket: status.Ticket, Reason: status.Reason, Refused: status.Stage == join.Refused.String(), Expired: status.Stage == join.Expired.String(),
		}
	}
	seen := map[uint64]time.Time{}
	for _, record := range m.options.Router.State().Joins().All() {
		if record.Stage != join.Requested || !isUpToDate {
			continue
		}
		since, isKnown := m.joinsSeen[record.Ticket]
		if !isKnown {
			since = now
		}
		seen[record.Ticket] = since
		in.JoinRequests = append(in.JoinRequests, diagnosis.JoinRequest{Node: record.Node(), Ticket: record.Ticket, Long: now.Sub(since) >= joinLongAfter})
	}
	m.joinsSeen = seen
}
