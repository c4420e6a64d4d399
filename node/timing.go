package node

import (
	"strings"

	"shardway/ack"
	"shardway/internal/timingrules"
	"shardway/node/leaderloop"
)

// compareTiming logs warnings about the timing of the cluster, once for each timing:
//
//   - The flags of this node contain another timing, which has no effect. This is logged only for the
//     first timing after the start.
//   - The heartbeat interval of this node is too long for the timing.
//   - RemoveDeadAfter is too short for the timing.
//
// said is the index of the log entry of the timing that was compared last. compareTiming returns its new
// value.
func (n *Node) compareTiming(said uint64) uint64 {
	s := n.fsm.state.Load()
	if !s.Bootstrapped() || !n.agent.upToDate.Load() || s.TimingIndex() == said {
		return said
	}
	t := s.Timing()
	if said == 0 && n.o.Timing != t {
		n.log.Warn().Str("flags", leaderloop.DescribeTiming(n.o.Timing)).Str("cluster", leaderloop.DescribeTiming(t)).
			Str("remedy", "start this node with "+flagsOf(t, n.o.Timing)+", or change the cluster's: shardway settings "+flagsOf(n.o.Timing, t)).
			Msg("timing flags differ from cluster settings")
	}
	for _, b := range timingrules.Check(n.o.Pace.Heartbeat, t.Lease, t.DeadAfter) {
		if !b.Satisfied {
			n.log.Warn().Str("breaks", b.Text).Str("figures", b.Values).Str("remedy", b.Remedy).Msg("heartbeats too slow for cluster settings")
		}
	}
	if d := n.o.RemoveDeadAfter; d > 0 && d < 2*t.DeadAfter {
		n.log.Warn().Str("remove_dead_after", timingrules.Short(d)).Str("dead_after", timingrules.Short(t.DeadAfter)).
			Str("remedy", "start this node with --remove-dead-after "+timingrules.Short(2*t.DeadAfter)+" or more").
			Msg("remove-dead-after too short")
	}
	return s.TimingIndex()
}

// flagsOf returns the flags of timing t whose values differ from those of other.
func flagsOf(t, other ack.Timing) string {
	var flags []string
	for _, f := range [][3]string{
		{"lease", timingrules.Short(t.Lease), timingrules.Short(other.Lease)},
		{"dead-after", timingrules.Short(t.DeadAfter), timingrules.Short(other.DeadAfter)},
		{"takeover", t.Takeover.String(), other.Takeover.String()},
		{"rebalance-mode", t.RebalanceMode.String(), other.RebalanceMode.String()},
	} {
		if f[1] != f[2] {
			flags = append(flags, "--"+f[0]+" "+f[1])
		}
	}
	return strings.Join(flags, " ")
}
