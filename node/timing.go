package node

import (
	"strings"

	"shardway/ack"
	"shardway/internal/timingrules"
	"shardway/node/leaderloop"
)

// timingCheck compares the timing of the cluster with the flags of this node.
type timingCheck struct {
	o        *Options
	upToDate func() bool // reports whether the log of this node is not far behind
	compared uint64      // index of the log entry of the timing that was compared last; zero means none
}

// compare logs warnings about the timing of the cluster, once for each timing:
//
//   - The flags of this node contain another timing, which has no effect. This is logged only for the
//     first timing after the start.
//   - The heartbeat interval of this node is too long for the timing.
//   - RemoveDeadAfter is too short for the timing.
func (c *timingCheck) compare(s *ack.State) {
	if !s.Bootstrapped() || !c.upToDate() || s.TimingIndex() == c.compared {
		return
	}
	t := s.Timing()
	if c.compared == 0 && c.o.Timing != t {
		c.o.Log.Warn().Str("flags", leaderloop.DescribeTiming(c.o.Timing)).Str("cluster", leaderloop.DescribeTiming(t)).
			Str("remedy", "start this node with "+flagsOf(t, c.o.Timing)+", or change the cluster's: shardway settings "+flagsOf(c.o.Timing, t)).
			Msg("timing flags differ from cluster settings")
	}
	for _, b := range timingrules.Check(c.o.Pace.Heartbeat, t.Lease, t.DeadAfter) {
		if !b.Satisfied {
			c.o.Log.Warn().Str("breaks", b.Text).Str("figures", b.Values).Str("remedy", b.Remedy).Msg("heartbeats too slow for cluster settings")
		}
	}
	if d := c.o.RemoveDeadAfter; d > 0 && d < 2*t.DeadAfter {
		c.o.Log.Warn().Str("remove_dead_after", timingrules.Short(d)).Str("dead_after", timingrules.Short(t.DeadAfter)).
			Str("remedy", "start this node with --remove-dead-after "+timingrules.Short(2*t.DeadAfter)+" or more").
			Msg("remove-dead-after too short")
	}
	c.compared = s.TimingIndex()
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
