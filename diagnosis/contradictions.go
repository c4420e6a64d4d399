package diagnosis

import (
	"fmt"
	"time"
)

// Contradictions are observations of a node that contradict a guarantee of Shardway. The zero value has none.
type Contradictions struct {
	TwoLeaders *LeaderPair
	TwoOwners  *OwnerPair
	// LeaseExcess is how much later than granted the lease of this node ended. Zero means no such lease.
	LeaseExcess time.Duration
	// OwnersNotMembers are the owners of shards that are not members of the cluster.
	OwnersNotMembers []string
	// LeaderNotMember is the leader if it is not a voter, and otherwise empty.
	LeaderNotMember string
}

// LeaderPair contains two leaders of one term.
type LeaderPair struct {
	Term          uint64
	First, Second string
}

// OwnerPair contains two owners of one shard under one ownership epoch. If IsWholeMap is set, they are two nodes with
// different maps of one epoch.
type OwnerPair struct {
	Shard         uint32
	Epoch         uint64
	First, Second string
	IsWholeMap    bool
}

// reportDefect is the end of the remedy for contradictions.
const reportDefect = "run `shardway debug` on each node, and report a defect"

// contradictionFindings reports contradictions.
func contradictionFindings(in Inputs) (findings []Finding) {
	report := func(code Code, remedy, format string, args ...any) {
		findings = append(findings, Finding{Code: code, Severity: Outage, Text: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	found := in.Contradictions
	if two := found.TwoLeaders; two != nil {
		report(TwoLeaders, "restart node "+two.Second+"; "+reportDefect, "nodes %s and %s both led the cluster in term %d", two.First, two.Second, two.Term)
	}
	switch two := found.TwoOwners; {
	case two == nil:
	case two.IsWholeMap:
		report(TwoOwners, "remove the node that differs from the others, and let it join with an empty --data directory; "+reportDefect, "nodes %s and %s have different shard maps of epoch %d", two.First, two.Second, two.Epoch)
	default:
		report(TwoOwners, "run `shardway drain "+two.Second+"`; "+reportDefect, "shard %d belonged to %s and to %s under ownership epoch %d", two.Shard, two.First, two.Second, two.Epoch)
	}
	if found.LeaseExcess > 0 {
		report(LeaseTooLong, "restart node "+in.Self+"; "+reportDefect, "the lease of node %s ended %v later than the leader had granted it", in.Self, rounded(found.LeaseExcess))
	}
	if owners := found.OwnersNotMembers; len(owners) > 0 {
		report(OwnerNotMember, "run `shardway step-down`; "+reportDefect, "%s %s shards and %s not in the cluster", joinNames(owners), inflect(len(owners), "owns", "own"), isOrAre(len(owners)))
	}
	if leader := found.LeaderNotMember; leader != "" {
		report(LeaderNotMember, "stop node "+leader+"; "+reportDefect, "node %s leads the cluster and is not one of its voters", leader)
	}
	return findings
}
