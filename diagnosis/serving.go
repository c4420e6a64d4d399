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
func servingFindings(in Inputs) (out []Finding) {
	out = append(out, keyFindings(in)...)
	out = append(out, unavailableFindings(in)...)
	if in.DuplicateAddr != "" {
		brief := "another process has the id of node " + in.Self
		out = append(out, Finding{
			Code: DuplicateNode, Severity: Warning, Text: brief + ", at " + in.DuplicateAddr, Brief: brief,
			Remedy: "stop the other process, or give one of them another --node and an empty --data directory",
		})
	}
	if in.HasMap && !in.Gateway && in.NoLeaseFor >= noLeaseAfter && in.DuplicateAddr == "" {
		f := Finding{
			Code: NoLease, Severity: Warning, Text: fmt.Sprintf("node %s has no lease, so it serves nothing", in.Self),
			Remedy: "check the other findings, and the network to the peer port of the leader; the leader grants a lease once it receives heartbeats",
		}
		if in.Leader != "" {
			f.Text = fmt.Sprintf("node %s has no lease of leader %s, so it serves nothing", in.Self, in.Leader)
		}
		out = append(out, f)
	}
	if in.NotInMap && in.Bootstrap == nil && in.Leader != "" {
		out = append(out, Finding{
			Code: Joining, Severity: Info, Text: fmt.Sprintf("node %s is not in the shard map yet", in.Self),
			Remedy: "wait until its app responds; the leader then adds the node, unless it is drained",
		})
	}
	if f, ok := acquiringFinding(in); ok {
		out = append(out, f)
	}
	return append(out, nodeFindings(in)...)
}

// keyFindings reports that this node cannot read the active key configuration. Without it, the node
// finds no keys, and all requests wait.
func keyFindings(in Inputs) []Finding {
	if in.KeysUnreadable == "" {
		return nil
	}
	brief := fmt.Sprintf("node %s cannot read the active key configuration, so its requests wait", in.Self)
	return []Finding{{
		Code: KeysUnreadable, Severity: Outage, Subject: in.Self, Text: brief + ": " + in.KeysUnreadable, Brief: brief,
		Remedy: fmt.Sprintf("run the version of the other nodes on node %s (`shardway status` shows each node's version)", in.Self),
	}}
}

// acquiringFinding reports shards that the app of this node has not acquired yet, or does not acquire.
func acquiringFinding(in Inputs) (f Finding, ok bool) {
	own := in.self()
	switch {
	case in.Acquiring == "" || in.NotAcquired == "" && in.NoLeaseFor >= noLeaseAfter: // nothing is acquired without a lease
		return f, false
	case in.NotAcquired == "" && own.NotAcquired == 0:
		return Finding{
			Code: Acquiring, Severity: Info, Subject: in.Self, Text: fmt.Sprintf("the app of node %s is acquiring %s, and the requests wait", in.Self, in.Acquiring),
			Remedy: "wait for the app; --acquire-timeout limits each attempt",
		}, true
	}
	f = Finding{
		Code: Acquiring, Severity: Warning, Subject: in.Self, Brief: fmt.Sprintf("the app of node %s does not acquire %s, whose requests wait", in.Self, in.Acquiring),
		Remedy: "repair what the app reports; the node repeats the call, and other nodes take the shards over if they can",
	}
	f.Text = f.Brief + ": " + cmp.Or(in.NotAcquired, "it has not responded yet")
	if own.NotAcquired > 0 {
		f.Severity = Outage
	}
	return f, true
}

// self returns this node as the other nodes see it.
func (in Inputs) self() Node {
	for _, x := range in.Nodes {
		if x.ID == in.Self {
			return x
		}
	}
	return Node{}
}

// notAcquiredFinding returns the finding for a node whose app does not acquire shards, as the leader reports.
func notAcquiredFinding(x Node) Finding {
	f := Finding{
		Code: Acquiring, Severity: Outage, Subject: x.ID, Text: fmt.Sprintf("the app of node %s does not acquire %s, whose requests wait", x.ID, pluralize(x.NotAcquired, "shard")),
		Remedy: fmt.Sprintf("run `shardway status` on node %s to see the error of the app; the node repeats the call, and other nodes take the shards over if they can", x.ID),
	}
	switch {
	case x.NotAcquired > 0:
		return f
	case x.AcquiresNone:
		f.Text = fmt.Sprintf("the app of node %s acquires no shards, so the node gets none", x.ID)
	default:
		f.Text = fmt.Sprintf("the app of node %s did not acquire %s, so other nodes own %s", x.ID, pluralize(x.MovedElsewhere, "shard"), itOrThem(x.MovedElsewhere))
	}
	f.Severity, f.Remedy = Warning, fmt.Sprintf("repair the acquire hook of the app: the log of node %s has its own words; the node gets the shards back by itself", x.ID)
	return f
}

// Unavailable returns the number of shards that no node serves, as far as this node knows.
func (in Inputs) Unavailable() int {
	if in.hasLostLeader() || !in.HasMap {
		return in.Shards
	}
	n := in.Orphaned
	for _, x := range in.Nodes {
		if !x.Restarting && (x.Lost || x.ID == in.Self && !in.Gateway && in.NoLeaseFor >= noLeaseAfter) {
			n += x.Shards
		}
	}
	return n
}

// Idle returns the reason why an owner serves no shards, as far as this node knows. Empty means
// that it serves them.
func (in Inputs) Idle(owner string) string {
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
	for _, x := range in.Nodes {
		switch {
		case x.ID != owner:
		case x.Restarting:
			return "it restarts in place, and requests wait for it"
		case !x.Alive:
			return "it sends no heartbeats"
		default:
			return ""
		}
	}
	return ""
}

func unavailableFindings(in Inputs) []Finding {
	n := in.Unavailable()
	if n == 0 || in.Bootstrap != nil || !in.HasMap && (in.Leader == "" || in.NoMapFor < noMapAfter) {
		return nil
	}
	f := Finding{Code: Unavailable, Severity: Outage, Remedy: "resolve the other findings: then the shards are served again"}
	lostOwners := in.pick(func(x Node) bool { return x.Lost && !x.Restarting && x.Shards > 0 })
	switch {
	case !in.HasMap:
		f.Text = fmt.Sprintf("there is no map yet, so no node serves any of the %d shards", n)
	case n == in.Shards:
		f.Text = fmt.Sprintf("no node serves any of the %d shards as far as node %s knows", n, in.Self)
	case in.Orphaned == n:
		f.Text = fmt.Sprintf("%d of %d shards %s orphaned", n, in.Shards, isOrAre(n))
	case len(lostOwners) > 0:
		f.Text = fmt.Sprintf("no node serves %d of %d shards: %s %s still their owner and not reachable", n, in.Shards, list(lostOwners), isOrAre(len(lostOwners)))
		f.Remedy = fmt.Sprintf("start %s; if a node and its app are gone for certain, remove it with `shardway remove --force %s`", list(lostOwners), lostOwners[0])
	default:
		f.Text = fmt.Sprintf("no node serves %d of %d shards", n, in.Shards)
	}
	return []Finding{f}
}

// nodeFindings returns the findings about single nodes.
func nodeFindings(in Inputs) (out []Finding) {
	for _, x := range in.Nodes {
		switch {
		case x.Restarting:
			out = append(out, Finding{
				Code: Restarting, Severity: Info, Subject: x.ID,
				Text:   fmt.Sprintf("node %s restarts in place: %s for it, for up to %v", x.ID, shardsWait(x.Shards), x.Grace),
				Remedy: "wait until the node is back or its --hold-grace has passed; run `shardway remove --force " + x.ID + "` to end it immediately",
			})
		case x.Lagging && x.Alive:
			out = append(out, Finding{
				Code: Lagging, Severity: Warning, Subject: x.ID, Text: fmt.Sprintf("node %s is behind: its map is that of epoch %d, and the cluster's that of epoch %d", x.ID, x.AppliedEpoch, in.Epoch),
				Remedy: "check its disk and CPU, and the network between it and the leader",
			})
		}
		if (x.NotAcquired > 0 || x.AcquiresNone || x.MovedElsewhere > 0) && x.Alive && (x.ID != in.Self || in.Acquiring == "") {
			out = append(out, notAcquiredFinding(x))
		}
		if x.NotReleased > 0 {
			out = append(out, notReleasedFinding(x))
		}
	}
	return out
}

// notReleasedFinding returns the finding for a node whose app has not released shards that moved away.
func notReleasedFinding(x Node) Finding {
	f := Finding{
		Code: NotReleased, Severity: Warning, Subject: x.ID,
		Text:   fmt.Sprintf("%s moved within the last 10 minutes although the app of node %s had not released %s", pluralize(x.NotReleased, "shard"), x.ID, itOrThem(x.NotReleased)),
		Remedy: "check the app for lost writes; unless it crashed, repair its release hook, or raise --release-timeout if it needs more time",
	}
	if x.NotReleasedReason == "" { // only the node itself knows the reason
		f.Remedy = "read the reason with `shardway status` at node " + x.ID + ", or in its log, and " + f.Remedy
		return f
	}
	f.Brief = f.Text
	f.Text += ": " + x.NotReleasedReason
	return f
}

// shardsWait returns the subject and the verb for the shards of a node.
func shardsWait(shards int) string {
	if shards == 1 {
		return "its shard waits"
	}
	return fmt.Sprintf("its %d shards wait", shards)
}
