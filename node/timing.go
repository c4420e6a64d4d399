package node

import (
	"strings"

	"shardway/ack"
	"shardway/internal/timingrules"
	"shardway/node/leaderloop"
)

// timingCheck compares the timing of the cluster with the flags of this node.
type timingCheck struct {
	options       *Options
	isUpToDate    func() bool // reports whether the log of this node is not far behind
	fail          func(error) // stops the node
	comparedIndex uint64      // index of the log entry of the timing that was compared last; zero means none
}

// compare logs warnings about the timing of the cluster, once for each timing:
//
//   - The flags of this node contain a different timing, which has no effect. This is logged only for the
//     first timing after the start.
//   - The heartbeat interval of this node is too long for the timing.
//   - RaftTimeout is too long for the timing.
//   - RemoveDeadAfter is too short for the timing.
//
// It stops a node that starts its app's processes if the takeover setting is unsafe for them.
func (c *timingCheck) compare(state *ack.State) {
	wasCompared := state.TimingIndex() == c.comparedIndex
	if !state.Bootstrapped() || !c.isUpToDate() || wasCompared {
		return
	}
	timing := state.Timing()
	if isFirst := c.comparedIndex == 0; isFirst {
		c.warnIfFlagsDiffer(timing)
	}
	for _, rule := range timingrules.Check(c.options.Pace.Heartbeat, timing.Lease, timing.DeadAfter) {
		if !rule.Satisfied {
			c.options.Log.Warn().Str("breaks", rule.Text).Str("figures", rule.Values).Str("remedy", rule.Remedy).Msg("heartbeats too slow for cluster settings")
		}
	}
	c.warnIfElectionsTakeTooLong(timing)
	c.warnIfRemovedTooEarly(timing)
	if c.options.Processes != nil && !mayRunProcesses(timing) {
		c.fail(errUnsafeTakeover)
	}
	c.comparedIndex = state.TimingIndex()
}

// warnIfFlagsDiffer logs a warning if the flags of this node contain a different timing than that
// of the cluster.
func (c *timingCheck) warnIfFlagsDiffer(timing ack.Timing) {
	if c.options.Timing == timing {
		return
	}
	c.options.Log.Warn().Str("flags", leaderloop.DescribeTiming(c.options.Timing)).Str("cluster", leaderloop.DescribeTiming(timing)).
		Str("remedy", "start this node with "+differingFlags(timing, c.options.Timing)+", or change the cluster's: shardway settings "+differingFlags(c.options.Timing, timing)).
		Msg("timing flags differ from cluster settings")
}

// warnIfElectionsTakeTooLong logs a warning if RaftTimeout is too long for the timing.
func (c *timingCheck) warnIfElectionsTakeTooLong(timing ack.Timing) {
	raftTimeout := c.options.RaftTimeout
	if raftTimeout <= timingrules.DefaultRaftTimeout || 2*raftTimeout <= timing.DeadAfter {
		return
	}
	c.options.Log.Warn().Str("raft_timeout", timingrules.Short(raftTimeout)).Str("dead_after", timingrules.Short(timing.DeadAfter)).
		Str("remedy", "start this node with --raft-timeout "+timingrules.Short(timing.DeadAfter/2)+" or less, or run: shardway settings --dead-after "+timingrules.Short(2*raftTimeout)).
		Msg("raft-timeout too long for cluster settings")
}

// warnIfRemovedTooEarly logs a warning if RemoveDeadAfter is too short for the timing.
func (c *timingCheck) warnIfRemovedTooEarly(timing ack.Timing) {
	removeAfter, minimum := c.options.RemoveDeadAfter, 2*timing.DeadAfter
	if removeAfter <= 0 || removeAfter >= minimum { // zero means that dead servers are not removed
		return
	}
	c.options.Log.Warn().Str("remove_dead_after", timingrules.Short(removeAfter)).Str("dead_after", timingrules.Short(timing.DeadAfter)).
		Str("remedy", "start this node with --remove-dead-after "+timingrules.Short(minimum)+" or more").
		Msg("remove-dead-after too short")
}

// differingFlags returns the flags for timing whose values differ from those for other.
func differingFlags(timing, other ack.Timing) string {
	var flags []string
	add := func(name, value, otherValue string) {
		if value != otherValue {
			flags = append(flags, "--"+name+" "+value)
		}
	}
	add("lease", timingrules.Short(timing.Lease), timingrules.Short(other.Lease))
	add("dead-after", timingrules.Short(timing.DeadAfter), timingrules.Short(other.DeadAfter))
	add("takeover", timing.Takeover.String(), other.Takeover.String())
	add("rebalance-mode", timing.RebalanceMode.String(), other.RebalanceMode.String())
	return strings.Join(flags, " ")
}
