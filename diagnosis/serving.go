package diagnosis

import (
	"cmp"
	"fmt"
	"time"
)

// noLeaseAfter is how long a node may be without a lease before it is reported. A node usually
// waits this long for its first lease or for an election.
const noLeaseAfter = time.Second

// noMapAfter is how long a leader may take for the first map. It waits up to 2 s for the nodes
// that bootstrap the cluster.
const noMapAfter = 3 * time.Second

// servingFindings returns the findings about shards that are not served.
func servingFindings(in Inputs) (findings []Finding) {
	findings = append(findings, keyConfigFindings(in)...)
	findings = append(findings, unavailableFindings(in)...)
	if in.DuplicateAddr != "" {
		brief := "another process has the id of node " + in.Self
		findings = append(findings, Finding{
			Code: DuplicateNode, Severity: Warning, Text: brief + ", at " + in.DuplicateAddr, Brief: brief,
			Remedy: "stop the other process, or give one of them another --node and an empty --data directory",
		})
	} else if in.HasMap && in.lacksLease() {
		findings = append(findings, noLeaseFinding(in))
	}
	if in.NotInMap && in.Bootstrap == nil && in.Leader != "" && !in.ownNode().Unreachable {
		findings = append(findings, Finding{
			Code: Joining, Severity: Info, Text: fmt.Sprintf("node %s is not in the shard map yet", in.Self),
			Remedy: "wait until its app responds; the leader then adds the node, unless it is drained",
		})
	}
	if finding, ok := acquiringFinding(in); ok {
		findings = append(findings, finding)
	}
	return append(findings, nodeFindings(in)...)
}

// lacksLease reports whether this node has had no lease for so long that this is a problem. A gateway
// needs no lease.
func (in Inputs) lacksLease() bool { return !in.Gateway && in.NoLeaseFor >= noLeaseAfter }

// noLeaseFinding reports that this node has no lease.
func noLeaseFinding(in Inputs) Finding {
	finding := Finding{
		Code: NoLease, Severity: Warning, Text: fmt.Sprintf("node %s has no lease, so it serves nothing", in.Self),
		Remedy: "check the other findings, and the network to the peer port of the leader; the leader grants a lease once it receives heartbeats",
	}
	if in.Leader != "" {
		finding.Text = fmt.Sprintf("node %s has no lease of leader %s, so it serves nothing", in.Self, in.Leader)
	}
	return finding
}

// keyConfigFindings reports that this node cannot read the active key configuration. Without it,
// the node finds no keys, and all requests wait.
func keyConfigFindings(in Inputs) []Finding {
	if in.KeyConfigError == "" {
		return nil
	}
	brief := fmt.Sprintf("node %s cannot read the active key configuration, so its requests wait", in.Self)
	return []Finding{{
		Code: KeysUnreadable, Severity: Outage, Subject: in.Self, Text: brief + ": " + in.KeyConfigError, Brief: brief,
		Remedy: fmt.Sprintf("run the version of the other nodes on node %s (`shardway status` shows each node's version)", in.Self),
	}}
}

// acquiringFinding reports shards that the app of this node has not acquired yet, or does not
// acquire.
func acquiringFinding(in Inputs) (finding Finding, ok bool) {
	if in.Acquiring == "" {
		return finding, false
	}
	hasFailed := in.AcquireError != ""
	if !hasFailed && in.NoLeaseFor >= noLeaseAfter {
		return finding, false // nothing is acquired without a lease
	}
	ownNode := in.ownNode()
	if !hasFailed && ownNode.WaitingShards == 0 {
		return Finding{
			Code: Acquiring, Severity: Info, Subject: in.Self, Text: fmt.Sprintf("the app of node %s is acquiring %s, and the requests wait", in.Self, in.Acquiring),
			Remedy: "wait for the app; --acquire-timeout limits each attempt",
		}, true
	}
	finding = Finding{
		Code: Acquiring, Severity: Warning, Subject: in.Self, Brief: fmt.Sprintf("the app of node %s does not acquire %s, whose requests wait", in.Self, in.Acquiring),
		Remedy: "repair what the app reports; the node repeats the call, and other nodes take the shards over if they can",
	}
	finding.Text = finding.Brief + ": " + cmp.Or(in.AcquireError, "it has not responded yet")
	if ownNode.WaitingShards > 0 {
		finding.Severity = Outage
	}
	return finding, true
}

// ownNode returns this node as the other nodes see it.
func (in Inputs) ownNode() Node {
	for _, node := range in.Nodes {
		if node.ID == in.Self {
			return node
		}
	}
	return Node{}
}

// acquireFailureFinding returns the finding for a node whose app does not acquire shards, as the
// leader reports.
func acquireFailureFinding(node Node) Finding {
	finding := Finding{
		Code: Acquiring, Severity: Outage, Subject: node.ID, Text: fmt.Sprintf("the app of node %s does not acquire %s, whose requests wait", node.ID, pluralize(node.WaitingShards, "shard")),
		Remedy: fmt.Sprintf("run `shardway status` on node %s to see the error of the app; the node repeats the call, and other nodes take the shards over if they can", node.ID),
	}
	switch {
	case node.WaitingShards > 0:
		return finding
	case node.CannotAcquire:
		finding.Text = fmt.Sprintf("the app of node %s acquires no shards, so the node gets none", node.ID)
	default:
		finding.Text = fmt.Sprintf("the app of node %s did not acquire %s, so other nodes own %s", node.ID, pluralize(node.ShardsMovedAway, "shard"), itOrThem(node.ShardsMovedAway))
	}
	finding.Severity, finding.Remedy = Warning, fmt.Sprintf("repair the acquire hook of the app: the log of node %s has its own words; the node gets the shards back by itself", node.ID)
	return finding
}

// CountUnavailable returns the number of shards that no node serves, as far as this node knows.
func (in Inputs) CountUnavailable() int {
	if in.hasLostLeader() || !in.HasMap {
		return in.Shards
	}
	count := in.Orphaned
	for _, node := range in.Nodes {
		servesNothing := node.Lost || node.ID == in.Self && in.lacksLease()
		if servesNothing && !node.Restarting { // requests wait for a restarting node
			count += node.Shards
		}
	}
	return count
}

// NotServingReason returns the reason why an owner serves no shards, as far as this node knows, or
// "" if it serves them.
func (in Inputs) NotServingReason(owner string) string {
	switch {
	case in.LeaderUnknown:
		return "the disk of this node is stalled"
	case in.Leader == "" && in.NoLeaderFor >= in.Lease:
		return "this node knows no leader, and without a leader no node serves"
	case owner == "":
		return "it is orphaned"
	case owner == in.Self && in.NoLeaseFor > 0:
		return "it has no lease"
	}
	for _, node := range in.Nodes {
		switch {
		case node.ID != owner:
		case node.Restarting:
			return "it restarts in place, and requests wait for it"
		case !node.Alive:
			return "it sends no heartbeats"
		default:
			return ""
		}
	}
	return ""
}

// unavailableFindings reports the number of shards that no node serves, and their owners if they are
// the reason.
func unavailableFindings(in Inputs) []Finding {
	count := in.CountUnavailable()
	if count == 0 || in.Bootstrap != nil {
		return nil
	}
	firstMapMayFollow := in.Leader == "" || in.NoMapFor < noMapAfter
	if !in.HasMap && firstMapMayFollow {
		return nil
	}
	finding := Finding{Code: Unavailable, Severity: Outage, Remedy: "resolve the other findings: then the shards are served again"}
	lostOwners := in.nodeIDs(func(node Node) bool { return node.Lost && !node.Restarting && node.Shards > 0 })
	switch {
	case !in.HasMap:
		finding.Text = fmt.Sprintf("there is no map yet, so no node serves any of the %d shards", count)
	case count == in.Shards:
		finding.Text = fmt.Sprintf("no node serves any of the %d shards as far as node %s knows", count, in.Self)
	case in.Orphaned == count:
		finding.Text = fmt.Sprintf("%d of %d shards %s orphaned", count, in.Shards, isOrAre(count))
		if services := in.OrphanedServices; len(services) > 0 {
			finding.Text += fmt.Sprintf(": no node can own shards of %s %s", inflect(len(services), "service", "services"), joinNames(services))
			finding.Remedy = "start or uncordon a node that runs " + itOrThem(len(services)) + ", or repair the app there: `shardway service list` shows the nodes"
		}
	case len(lostOwners) > 0:
		finding.Text = fmt.Sprintf("no node serves %d of %d shards: %s %s still their owner and not reachable", count, in.Shards, joinNames(lostOwners), isOrAre(len(lostOwners)))
		finding.Remedy = fmt.Sprintf("start %s; if a node and its app are gone for certain, remove it with `shardway remove --force %s`", joinNames(lostOwners), lostOwners[0])
	default:
		finding.Text = fmt.Sprintf("no node serves %d of %d shards", count, in.Shards)
	}
	return []Finding{finding}
}

// nodeFindings returns the findings about single nodes.
func nodeFindings(in Inputs) (findings []Finding) {
	for _, node := range in.Nodes {
		switch {
		case node.Restarting:
			findings = append(findings, Finding{
				Code: Restarting, Severity: Info, Subject: node.ID,
				Text:   fmt.Sprintf("node %s restarts in place: %s for it, for up to %v", node.ID, shardsWait(node.Shards), node.Grace),
				Remedy: "wait until the node is back or its --hold-grace has passed; run `shardway remove --force " + node.ID + "` to end it immediately",
			})
		case node.Lagging && node.Alive:
			findings = append(findings, Finding{
				Code: Lagging, Severity: Warning, Subject: node.ID, Text: fmt.Sprintf("node %s is behind: it has the shard map of epoch %d, and the cluster is at epoch %d", node.ID, node.AppliedEpoch, in.Epoch),
				Remedy: "check its disk and CPU, and the network between it and the leader",
			})
		}
		if node.isExcludedUnreachable() {
			findings = append(findings, unreachableFinding(node))
		}
		failsToAcquire := node.WaitingShards > 0 || node.CannotAcquire || node.ShardsMovedAway > 0
		alreadyReported := node.ID == in.Self && in.Acquiring != "" // by acquiringFinding, with the error
		if failsToAcquire && node.Alive && !alreadyReported {
			findings = append(findings, acquireFailureFinding(node))
		}
		if node.UnreleasedMoves > 0 {
			findings = append(findings, unreleasedMovesFinding(node))
		}
	}
	return findings
}

// isExcludedUnreachable reports whether the node runs and would own shards if most other nodes could connect to it.
func (n Node) isExcludedUnreachable() bool {
	return n.Unreachable && n.Alive && !n.Gateway && !n.Drained && !n.MarkedFailed && !n.Stopping
}

// unreachableFinding returns the finding for a node that is excluded because most other nodes could not connect to it.
func unreachableFinding(node Node) Finding {
	finding := Finding{
		Code: NodeUnreachable, Severity: Warning, Subject: node.ID,
		Text:   fmt.Sprintf("node %s is excluded from the shard map, because most other nodes could not connect to its peer port", node.ID),
		Remedy: fmt.Sprintf("wait until most other nodes have reached node %s for --dead-after, and for longer after repeated failures; it then gets shards again", node.ID),
	}
	if len(node.Reporters) > 0 {
		finding.Text += fmt.Sprintf(": %s cannot connect now", joinNames(node.Reporters))
		finding.Remedy = fmt.Sprintf("open the peer port (--peer, TCP 7947) of node %s to all nodes: run `shardway doctor` to list the unreachable ports", node.ID)
	}
	return finding
}

// unreleasedMovesFinding returns the finding for a node whose app has not released shards that
// moved away.
func unreleasedMovesFinding(node Node) Finding {
	finding := Finding{
		Code: NotReleased, Severity: Warning, Subject: node.ID,
		Text:   fmt.Sprintf("%s moved within the last 10 minutes although the app of node %s had not released %s", pluralize(node.UnreleasedMoves, "shard"), node.ID, itOrThem(node.UnreleasedMoves)),
		Remedy: "check the app for lost writes; unless it crashed, repair its release hook, or raise --release-timeout if it needs more time",
	}
	if node.UnreleasedReason == "" { // only the node itself knows the reason
		finding.Remedy = "read the reason with `shardway status` at node " + node.ID + ", or in its log, and " + finding.Remedy
		return finding
	}
	finding.Brief = finding.Text
	finding.Text += ": " + node.UnreleasedReason
	return finding
}

// shardsWait returns the subject and the verb for the shards of a node.
func shardsWait(shards int) string {
	if shards == 1 {
		return "its shard waits"
	}
	return fmt.Sprintf("its %d shards wait", shards)
}
