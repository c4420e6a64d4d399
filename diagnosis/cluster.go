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
	// noLeaderAfter is how long there must be no leader before it is reported although a quorum seems
	// to be present. Elections with split votes take several rounds.
	noLeaderAfter = 4 * time.Second
)

// clusterFindings returns the findings about bootstrap, leader and voters.
func clusterFindings(in Inputs) (all []Finding) {
	all = append(all, notBootstrapped(in)...)
	all = append(all, joinFailureFindings(in)...)
	all = append(all, clustersDiffer(in)...)
	all = append(all, unreachablePeerPorts(in)...)
	all = append(all, noLeaderFindings(in)...)
	return append(all, voterFindings(in)...)
}

func notBootstrapped(in Inputs) []Finding {
	u := in.Bootstrap
	switch {
	case u == nil:
		return nil
	case u.ClusterToJoin != "" && in.JoinConflict != nil:
		return nil // clustersDiffer reports why it is not added
	case u.ClusterToJoin != "":
		return []Finding{{
			Code: Joining, Severity: Info, Text: fmt.Sprintf("node %s waits to be added to cluster %s", in.Self, u.ClusterToJoin),
			Remedy: "wait for the leader to add this node; otherwise run `shardway doctor` on another node to check the leader and the peer port of this node",
		}}
	case u.MissingBootstrapper != "":
		return []Finding{{
			Code: Bootstrapping, Severity: Outage, Text: fmt.Sprintf("node %s was about to bootstrap the cluster and is gone", u.MissingBootstrapper),
			Remedy: fmt.Sprintf("start it again; if its data directory is lost, start a node with its ID (--node %s)", u.MissingBootstrapper),
		}}
	case u.BootstrapExpect > 1:
		text := fmt.Sprintf("%d of the %d nodes that must start the cluster %s here", len(u.Peers), u.BootstrapExpect, isOrAre(len(u.Peers)))
		if len(u.Peers) > 0 {
			text += " (" + list(u.Peers) + ")"
		}
		if u.IsBootstrapper() {
			return []Finding{{
				Code: Bootstrapping, Severity: Outage, Text: text + ", and have not bootstrapped it yet",
				Remedy: "wait a few seconds; otherwise open the peer port (--peer, TCP 7947) between all nodes: `shardway doctor` lists the unreachable ports",
			}}
		}
		return []Finding{{
			Code: Bootstrapping, Severity: Outage, Text: text,
			Remedy: fmt.Sprintf("start the other nodes with --bootstrap-expect %d and the gossip address of one of these nodes in --join", u.BootstrapExpect),
		}}
	case u.Joins && in.JoinFailure == nil && slices.ContainsFunc(in.Nodes, func(n Node) bool { return n.Alive && n.ID != in.Self }): // otherwise joinFailureFindings reports the addresses
		return []Finding{{
			Code: Bootstrapping, Severity: Outage, Text: "no node here belongs to a cluster or starts one (" + list(in.pick(func(n Node) bool { return n.Alive })) + ")",
			Remedy: "start one node without --join, or all nodes with --bootstrap-expect and their number",
		}}
	}
	return nil
}

func joinFailureFindings(in Inputs) []Finding {
	if in.JoinFailure == nil || in.Leader != "" {
		return nil
	}
	brief := fmt.Sprintf("node %s has reached no other node", in.Self)
	var tried []string
	for _, a := range in.JoinFailure.Attempts[:min(len(in.JoinFailure.Attempts), maxNamed)] {
		tried = append(tried, a.Addr+" ("+a.Why+")")
	}
	text := brief
	if len(tried) > 0 {
		text += ": " + strings.Join(tried, ", ")
	}
	remedy := "start the other nodes, or set their gossip addresses (--gossip, port 7946) in --join"
	if in.JoinFailure.needsSecret() {
		remedy = sameSecret
	} else if in.Bootstrap != nil && in.Bootstrap.BootstrapExpect <= 1 && in.JoinFailure.reachedOnlySelf() {
		remedy = "set --join to the gossip address of another node; to start a new cluster, start this node without --join, or with --bootstrap-expect 1 and its own IP address in --join"
	}
	return []Finding{{Code: NoPeers, Severity: Outage, Text: text, Brief: brief, Remedy: remedy}}
}

// clustersDiffer reports that the join addresses belong to different clusters.
func clustersDiffer(in Inputs) []Finding {
	c := in.JoinConflict
	if c == nil {
		return nil
	}
	f := Finding{
		Code: ClustersDiffer, Severity: Warning,
		Text:   fmt.Sprintf("node %s belongs to cluster %s, and join address %s (node %s) to cluster %s", in.Self, c.First.Cluster, c.Second.Addr, c.Second.Node, c.Second.Cluster),
		Brief:  fmt.Sprintf("a join address of node %s belongs to another cluster", in.Self),
		Remedy: fmt.Sprintf("start node %s with addresses of one cluster in --join", in.Self),
	}
	if in.Bootstrap != nil {
		f.Severity = Outage
		f.Text = fmt.Sprintf("node %s joins no cluster, because its join addresses belong to two: %s (node %s) to cluster %s, %s (node %s) to cluster %s",
			in.Self, c.First.Addr, c.First.Node, c.First.Cluster, c.Second.Addr, c.Second.Node, c.Second.Cluster)
		f.Brief = fmt.Sprintf("node %s joins no cluster, because its join addresses belong to two", in.Self)
	}
	return []Finding{f}
}

// unreachablePeerPorts reports nodes that are not added to their cluster because a peer port is not reached.
func unreachablePeerPorts(in Inputs) (all []Finding) {
	for _, u := range in.UnreachablePeerPorts {
		f := Finding{Code: PeerPortUnreachable, Severity: Warning, Subject: u.Node}
		if in.Bootstrap != nil {
			f.Severity = Outage // this node serves nothing until it is added
		}
		at := ""
		if u.Addr != "" {
			at = " at " + u.Addr
		}
		switch {
		case u.By == in.Self && in.Bootstrap != nil && !in.Bootstrap.IsBootstrapper():
			f.Text = fmt.Sprintf("node %s does not reach the peer port of node %s%s: %s", u.By, u.Node, at, u.Why)
			f.Brief = fmt.Sprintf("node %s does not reach the peer port of node %s", u.By, u.Node)
		case in.Bootstrap.IsBootstrapper():
			f.Text = fmt.Sprintf("the cluster is not bootstrapped: node %s does not reach the peer port of node %s%s: %s", u.By, u.Node, at, u.Why)
			f.Brief = fmt.Sprintf("the cluster is not bootstrapped: node %s does not reach the peer port of node %s", u.By, u.Node)
		default:
			f.Text = fmt.Sprintf("node %s is not added to the cluster: node %s does not reach its peer port%s: %s", u.Node, u.By, at, u.Why)
			f.Brief = fmt.Sprintf("node %s is not added to the cluster: node %s does not reach its peer port", u.Node, u.By)
		}
		f.Remedy = fmt.Sprintf("open the peer port (--peer, TCP 7947) between all nodes; if node %s is reached at another address, start it with --peer-advertise", u.Node)
		all = append(all, f)
	}
	return all
}

const sameSecret = "start this node with the secret of the other nodes (--secret-file)"

// needsSecret reports whether other nodes responded that use another secret.
func (a *JoinFailure) needsSecret() bool {
	return a != nil && slices.ContainsFunc(a.Attempts, func(x JoinAttempt) bool { return x.OtherSecret })
}

// reachedOnlySelf reports whether every address led to this node.
func (a *JoinFailure) reachedOnlySelf() bool {
	return len(a.Attempts) > 0 && !slices.ContainsFunc(a.Attempts, func(x JoinAttempt) bool { return !x.ReachedSelf })
}

// hasLostLeader reports whether there is no leader for longer than an election takes.
func (in Inputs) hasLostLeader() bool {
	all, here, _ := in.voters()
	missing := len(here) < quorum(len(all))
	return in.LeaderUnknown || in.Leader == "" && (missing && in.NoLeaderFor >= noQuorumAfter || in.NoLeaderFor >= noLeaderAfter)
}

func noLeaderFindings(in Inputs) []Finding {
	all, here, missing := in.voters()
	if len(all) == 0 || in.LeaderUnknown || !in.hasLostLeader() {
		return nil
	}
	if len(here) < quorum(len(all)) {
		remedy := "start " + list(missing) + ", or repair the network to " + itOrThem(len(missing)) + "; if their data is lost for good, continue with one remaining node: `shardway recover` (docs/operate/backup-recovery.md)"
		if in.JoinFailure.needsSecret() {
			remedy = sameSecret
		}
		return []Finding{{
			Code: NoQuorum, Severity: Outage,
			Text:   fmt.Sprintf("%d of %d voters %s present and %d are required, so there is no leader: %s %s missing", len(here), len(all), isOrAre(len(here)), quorum(len(all)), list(missing), isOrAre(len(missing))),
			Remedy: remedy,
		}}
	}
	if len(in.AddressChanges) > 0 {
		m := in.AddressChanges[0]
		f := Finding{
			Code: NoQuorum, Severity: Outage,
			Text:   fmt.Sprintf("node %s knows no leader: gossip still has the previous address of node %s, %s; the node announces %s", in.Self, m.Node, m.From, m.To),
			Brief:  fmt.Sprintf("node %s knows no leader: gossip still has the previous address of node %s", in.Self, m.Node),
			Remedy: "wait up to 15 s until gossip has the new address; otherwise check that node " + m.Node + " runs only once, with its own data directory, and that its peer port is reachable",
		}
		if m.Why != "" {
			f.Text += " (" + m.Why + ")"
		}
		return []Finding{f}
	}
	return []Finding{{
		Code: NoQuorum, Severity: Outage,
		Text:   fmt.Sprintf("node %s knows no leader, although %d of %d voters are present: they do not reach each other's peer ports, or cannot agree", in.Self, len(here), len(all)),
		Remedy: "check the network between the peer ports (--peer, port 7947), and the disks of the voters",
	}}
}

func voterFindings(in Inputs) (out []Finding) {
	all, here, missing := in.voters()
	if in.Leader != "" && len(all) >= 3 && len(missing) > 0 && len(here) <= quorum(len(all)) {
		out = append(out, Finding{
			Code: NoFaultTolerance, Severity: Warning,
			Text:   fmt.Sprintf("%d of %d voters %s present (%s) and %d are required: the loss of one more stops the cluster; %s %s missing", len(here), len(all), isOrAre(len(here)), list(here), quorum(len(all)), list(missing), isOrAre(len(missing))),
			Remedy: "start " + list(missing) + ", or repair the network to " + itOrThem(len(missing)) + "; or remove permanently lost nodes with `shardway remove`, and add new ones",
		})
	}
	if in.EvenVoters && len(all) > 0 && len(all)%2 == 0 {
		text := fmt.Sprintf("%d voters (%s) tolerate no more failures than %d would", len(all), list(all), len(all)-1)
		if len(all) == 2 {
			text = fmt.Sprintf("two voters (%s): the loss of either stops the cluster", list(all))
		}
		out = append(out, Finding{Code: EvenVoters, Severity: Warning, Text: text, Remedy: "add a node, or a gateway as witness, or set --max-voters to an odd number"})
	}
	return out
}
