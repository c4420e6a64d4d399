package diagnosis

import "fmt"

// joinWaitingFindings reports nodes that wait for an approval to join the cluster, this node included.
func joinWaitingFindings(in Inputs) (findings []Finding) {
	if in.OwnJoin != nil && in.Bootstrap != nil {
		findings = append(findings, ownJoinFinding(in))
	}
	for _, request := range in.JoinRequests {
		finding := Finding{
			Code: JoinWaiting, Severity: Info, Subject: request.Node,
			Text:   fmt.Sprintf("node %s waits for an approval to join (ticket %d)", request.Node, request.Ticket),
			Remedy: fmt.Sprintf("run `shardway approve %s`, or `shardway refuse %s --reason TEXT`", request.Node, request.Node),
		}
		if request.Long {
			finding.Severity = Warning
		}
		findings = append(findings, finding)
	}
	return findings
}

// ownJoinFinding reports that this node is not part of the cluster, because no operator has approved its request.
func ownJoinFinding(in Inputs) Finding {
	own := in.OwnJoin
	finding := Finding{Code: JoinWaiting, Severity: Warning, Subject: in.Self}
	switch {
	case own.Refused:
		finding.Text = fmt.Sprintf("the join request of node %s is refused: %s", in.Self, own.Reason)
		finding.Remedy = fmt.Sprintf("stop this node, or run `shardway approve %s` on a member of the cluster", in.Self)
	case own.Expired:
		finding.Text = fmt.Sprintf("the join request of node %s has expired", in.Self)
		finding.Remedy = fmt.Sprintf("restart this node, then run `shardway approve %s` on a member of the cluster", in.Self)
	case own.Ticket == 0:
		finding.Text = fmt.Sprintf("the join request of node %s is not recorded: %s", in.Self, own.Reason)
		finding.Remedy = "run `shardway joins` on a member of the cluster, and approve or refuse open requests"
	default:
		finding.Text = fmt.Sprintf("node %s waits for an approval to join (ticket %d)", in.Self, own.Ticket)
		finding.Remedy = fmt.Sprintf("run `shardway approve %s` on a member of the cluster", in.Self)
	}
	return finding
}
