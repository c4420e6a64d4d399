package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// noQuorumAfter is how long there must be no leader before a missing quorum is reported. It is
	// longer than a fast election among live nodes.
	noQuorumAfter = time.Second
	// noLeaderAfter is how long there must be no leader before it is reported although a quorum
	// seems to be present. Elections with split votes take several rounds.
	noLeaderAfter = 4 * time.Second
)

// clusterFindings returns the findings about bootstrap, leader and voters.
func clusterFindings(in Inputs) (findings []Finding) {
	findings = append(findings, bootstrapFindings(in)...)
	findings = append(findings, joinFailureFindings(in)...)
	findings = append(findings, joinConflictFindings(in)...)
	findings = append(findings, joinWaitingFindings(in)...)
	findings = append(findings, peerPortFindings(in)...)
	findings = append(findings, noLeaderFindings(in)...)
	return append(findings, voterFindings(in)...)
}

// bootstrapFindings reports what a node that belongs to no cluster waits for.
func bootstrapFindings(in Inputs) []Finding {
	bootstrap := in.Bootstrap
	switch {
	case bootstrap == nil:
		return nil
	case bootstrap.ClusterToJoin != "" && in.JoinConflict != nil:
		return nil // joinConflictFindings reports why it is not added
	case in.OwnJoin != nil:
		return nil // joinWaitingFindings reports why it is not added
	case bootstrap.ClusterToJoin != "":
		return []Finding{{
			Code: Joining, Severity: Info, Text: fmt.Sprintf("node %s waits to be added to cluster %s", in.Self, bootstrap.ClusterToJoin),
			Remedy: "wait for the leader to add this node; otherwise run `shardway doctor` on another node to check the leader and the peer port of this node",
		}}
	case bootstrap.MissingBootstrapper != "":
		return []Finding{{
			Code: Bootstrapping, Severity: Outage, Text: fmt.Sprintf("node %s was about to bootstrap the cluster and is gone", bootstrap.MissingBootstrapper),
			Remedy: fmt.Sprintf("start it again; if its data directory is lost, start a node with its ID (--node %s)", bootstrap.MissingBootstrapper),
		}}
	case bootstrap.BootstrapExpect > 1:
		text := fmt.Sprintf("%d of the %d nodes that must start the cluster %s here", len(bootstrap.Peers), bootstrap.BootstrapExpect, isOrAre(len(bootstrap.Peers)))
		if len(bootstrap.Peers) > 0 {
			text += " (" + joinNames(bootstrap.Peers) + ")"
		}
		if bootstrap.IsBootstrapper() {
			return []Finding{{
				Code: Bootstrapping, Severity: Outage, Text: text + ", and have not bootstrapped it yet",
				Remedy: "wait a few seconds; otherwise open the peer port (--peer, TCP 7947) between all nodes: `shardway doctor` lists the unreachable ports",
			}}
		}
		return []Finding{{
			Code: Bootstrapping, Severity: Outage, Text: text,
			Remedy: fmt.Sprintf("start the other nodes with --bootstrap-expect %d and the gossip address of one of these nodes in --join", bootstrap.BootstrapExpect),
		}}
	}
	live := in.nodeIDs(func(node Node) bool { return node.Alive })
	seesOthers := slices.ContainsFunc(live, func(id string) bool { return id != in.Self })
	// After a JoinFailure, joinFailureFindings reports the addresses.
	if !bootstrap.HasJoinAddrs || in.JoinFailure != nil || !seesOthers {
		return nil
	}
	return []Finding{{
		Code: Bootstrapping, Severity: Outage, Text: "no node here belongs to a cluster or starts one (" + joinNames(live) + ")",
		Remedy: "start one node without --join, or all nodes with --bootstrap-expect and their number",
	}}
}

// joinFailureFindings reports that this node has reached no other node, with the results of the
// addresses that it tried.
func joinFailureFindings(in Inputs) []Finding {
	if in.JoinFailure == nil || in.Leader != "" {
		return nil
	}
	brief := fmt.Sprintf("node %s has reached no other node", in.Self)
	var tried []string
	for _, attempt := range in.JoinFailure.Attempts[:min(len(in.JoinFailure.Attempts), maxNamed)] {
		tried = append(tried, attempt.Addr+" ("+attempt.Why+")")
	}
	text := brief
	if len(tried) > 0 {
		text += ": " + strings.Join(tried, ", ")
	}
	remedy := "start the other nodes, or set their gossip addresses (--gossip, port 7946) in --join"
	mayBeFirstNode := in.Bootstrap != nil && in.Bootstrap.BootstrapExpect <= 1
	if in.JoinFailure.needsSecret() {
		remedy = sameSecret
	} else if mayBeFirstNode && in.JoinFailure.reachedOnlySelf() {
		remedy = "set --join to the gossip address of another node; to start a new cluster, start this node without --join, or with --bootstrap-expect 1 and its own IP address in --join"
	}
	return []Finding{{Code: NoPeers, Severity: Outage, Text: text, Brief: brief, Remedy: remedy}}
}

// joinConflictFindings reports that the join addresses belong to different clusters.
func joinConflictFindings(in Inputs) []Finding {
	conflict := in.JoinConflict
	if conflict == nil {
		return nil
	}
	finding := Finding{
		Code: ClustersDiffer, Severity: Warning,
		Text:   fmt.Sprintf("node %s belongs to cluster %s, and join address %s (node %s) to cluster %s", in.Self, conflict.First.Cluster, conflict.Second.Addr, conflict.Second.Node, conflict.Second.Cluster),
		Brief:  fmt.Sprintf("a join address of node %s belongs to another cluster", in.Self),
		Remedy: fmt.Sprintf("start node %s with addresses of one cluster in --join", in.Self),
	}
	if in.Bootstrap != nil {
		finding.Severity = Outage
		finding.Text = fmt.Sprintf("node %s joins no cluster, because its join addresses belong to two: %s (node %s) to cluster %s, %s (node %s) to cluster %s",
			in.Self, conflict.First.Addr, conflict.First.Node, conflict.First.Cluster, conflict.Second.Addr, conflict.Second.Node, conflict.Second.Cluster)
		finding.Brief = fmt.Sprintf("node %s joins no cluster, because its join addresses belong to two", in.Self)
	}
	return []Finding{finding}
}

// peerPortFindings reports nodes that are not added to their cluster because a peer port is not
// reached.
func peerPortFindings(in Inputs) (findings []Finding) {
	for _, unreachable := range in.UnreachablePeerPorts {
		finding := Finding{Code: PeerPortUnreachable, Severity: Warning, Subject: unreachable.Node}
		if in.Bootstrap != nil {
			finding.Severity = Outage // this node serves nothing until it is added
		}
		location := ""
		if unreachable.Addr != "" {
			location = " at " + unreachable.Addr
		}
		isJoining := in.Bootstrap != nil && !in.Bootstrap.IsBootstrapper()
		doesNotReach := fmt.Sprintf("node %s does not reach the peer port of node %s", unreachable.ReportedBy, unreachable.Node)
		switch {
		case isJoining && unreachable.ReportedBy == in.Self:
			finding.Brief = doesNotReach
		case in.Bootstrap.IsBootstrapper():
			finding.Brief = "the cluster is not bootstrapped: " + doesNotReach
		default:
			finding.Brief = fmt.Sprintf("node %s is not added to the cluster: node %s does not reach its peer port", unreachable.Node, unreachable.ReportedBy)
		}
		finding.Text = fmt.Sprintf("%s%s: %s", finding.Brief, location, unreachable.Why)
		finding.Remedy = fmt.Sprintf("open the peer port (--peer, TCP 7947) between all nodes; if node %s is reached at another address, start it with --peer-advertise", unreachable.Node)
		findings = append(findings, finding)
	}
	return findings
}

const sameSecret = "start this node with the secret of the other nodes (--secret-file)"

// needsSecret reports whether other nodes responded that use another secret.
func (f *JoinFailure) needsSecret() bool {
	return f != nil && slices.ContainsFunc(f.Attempts, func(attempt JoinAttempt) bool { return attempt.OtherSecret })
}

// reachedOnlySelf reports whether every address led to this node.
func (f *JoinFailure) reachedOnlySelf() bool {
	return len(f.Attempts) > 0 && !slices.ContainsFunc(f.Attempts, func(attempt JoinAttempt) bool { return !attempt.ReachedSelf })
}

// hasLostLeader reports whether there is no leader for longer than an election takes.
func (in Inputs) hasLostLeader() bool {
	if in.LeaderUnknown {
		return true
	}
	if in.Leader != "" {
		return false
	}
	voters, present, _ := in.voterIDs()
	noQuorum := len(present) < quorum(len(voters))
	// Elections take longer if the nodes are far apart and have a long Raft timeout.
	noQuorumLimit, noLeaderLimit := max(noQuorumAfter, 2*in.RaftTimeout), max(noLeaderAfter, 8*in.RaftTimeout)
	return in.NoLeaderFor >= noLeaderLimit || noQuorum && in.NoLeaderFor >= noQuorumLimit
}

// noLeaderFindings reports that there is no leader, with the most probable cause: no quorum, an
// outdated address in gossip, or the network between the voters.
func noLeaderFindings(in Inputs) []Finding {
	voters, present, missing := in.voterIDs()
	if len(voters) == 0 || in.LeaderUnknown || !in.hasLostLeader() {
		return nil
	}
	if len(present) < quorum(len(voters)) {
		remedy := "start " + joinNames(missing) + ", or repair the network to " + itOrThem(len(missing)) + "; if their data is lost for good, continue with one remaining node: `shardway recover` (docs/operate/backup-recovery.md)"
		if in.JoinFailure.needsSecret() {
			remedy = sameSecret
		}
		return []Finding{{
			Code: NoQuorum, Severity: Outage,
			Text:   fmt.Sprintf("%d of %d voters %s present and %d are required, so there is no leader: %s %s missing", len(present), len(voters), isOrAre(len(present)), quorum(len(voters)), joinNames(missing), isOrAre(len(missing))),
			Remedy: remedy,
		}}
	}
	if len(in.AddressChanges) > 0 {
		change := in.AddressChanges[0]
		finding := Finding{
			Code: NoQuorum, Severity: Outage,
			Text:   fmt.Sprintf("node %s knows no leader: gossip still has the previous address of node %s, %s; the node announces %s", in.Self, change.Node, change.From, change.To),
			Brief:  fmt.Sprintf("node %s knows no leader: gossip still has the previous address of node %s", in.Self, change.Node),
			Remedy: "wait up to 15 s until gossip has the new address; otherwise check that node " + change.Node + " runs only once, with its own data directory, and that its peer port is reachable",
		}
		if change.Why != "" {
			finding.Text += " (" + change.Why + ")"
		}
		return []Finding{finding}
	}
	return []Finding{{
		Code: NoQuorum, Severity: Outage,
		Text:   fmt.Sprintf("node %s knows no leader, although %d of %d voters are present: they do not reach each other's peer ports, or cannot agree", in.Self, len(present), len(voters)),
		Remedy: "check the network between the peer ports (--peer, port 7947), and the disks of the voters",
	}}
}

// voterFindings reports numbers of voters that tolerate too few failures.
func voterFindings(in Inputs) (findings []Finding) {
	voters, present, missing := in.voterIDs()
	toleratesNoFailure := len(missing) > 0 && len(present) <= quorum(len(voters))
	if in.Leader != "" && len(voters) >= 3 && toleratesNoFailure {
		findings = append(findings, Finding{
			Code: NoFaultTolerance, Severity: Warning,
			Text:   fmt.Sprintf("%d of %d voters %s present (%s) and %d are required: the loss of one more stops the cluster; %s %s missing", len(present), len(voters), isOrAre(len(present)), joinNames(present), quorum(len(voters)), joinNames(missing), isOrAre(len(missing))),
			Remedy: "start " + joinNames(missing) + ", or repair the network to " + itOrThem(len(missing)) + "; or remove permanently lost nodes with `shardway remove`, and add new ones",
		})
	}
	if in.EvenVoters && len(voters) > 0 && len(voters)%2 == 0 {
		text := fmt.Sprintf("%d voters (%s) tolerate no more failures than %d would", len(voters), joinNames(voters), len(voters)-1)
		if len(voters) == 2 {
			text = fmt.Sprintf("two voters (%s): the loss of either stops the cluster", joinNames(voters))
		}
		findings = append(findings, Finding{Code: EvenVoters, Severity: Warning, Text: text, Remedy: "add a node, or a gateway as witness, or set --max-voters to an odd number"})
	}
	return findings
}
