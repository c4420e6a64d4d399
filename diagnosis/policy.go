package diagnosis

import (
	"fmt"
	"strings"
)

// policyFindings returns the findings about requests of operators, and about actions that they
// should take.
func policyFindings(in Inputs) (findings []Finding) {
	for _, suspect := range in.PoisonSuspects {
		shard, flag := fmt.Sprintf("shard %d", suspect.Shard), ""
		if suspect.Service != "" {
			shard, flag = shard+" of service "+suspect.Service, " --service "+suspect.Service
		}
		findings = append(findings, Finding{
			Code: PoisonSuspect, Severity: Warning, Subject: fmt.Sprintf("%s%d/%016x", suspect.Service, suspect.Shard, suspect.Hash),
			Text:   fmt.Sprintf("requests of the key with key_hash %016x, in %s, were under way at %s when these broke", suspect.Hash, shard, strings.Join(suspect.Nodes, " and ")),
			Remedy: fmt.Sprintf("run `shardway quarantine%s --shard %d --hash %016x` to refuse these requests on all nodes", flag, suspect.Shard, suspect.Hash),
		})
	}
	findings = append(findings, drainFindings(in)...)
	if in.PausedMovesFor != "" {
		findings = append(findings, Finding{Code: Paused, Severity: Info, Text: "planned moves of shards are paused for " + in.PausedMovesFor, Remedy: "run `shardway resume` to end it"})
	}
	findings = append(findings, markedFailedFindings(in)...)
	if ids := in.nodeIDs(func(node Node) bool { return node.Cordoned && !node.Drained && !node.MarkedFailed }); len(ids) > 0 {
		findings = append(findings, Finding{
			Code: Cordoned, Severity: Info, Text: fmt.Sprintf("%s %s cordoned and %s no further shards", joinNames(ids), isOrAre(len(ids)), inflect(len(ids), "gets", "get")),
			Remedy: uncordonRemedy(ids, "it"),
		})
	}
	if in.MissingRole != "" {
		findings = append(findings, Finding{
			Code: RoleMissing, Severity: Warning, Text: fmt.Sprintf("shards are restricted to the role %s, and no node with this role can get shards: other nodes keep and get them", in.MissingRole),
			Remedy: "start or uncordon a node with --role " + in.MissingRole + ", or run `shardway policy role --remove` to end the restriction",
		})
	}
	if in.Quarantined > 0 {
		findings = append(findings, Finding{
			Code: Quarantined, Severity: Info, Text: fmt.Sprintf("%s %s in quarantine, and their requests are refused", pluralize(in.Quarantined, "key"), isOrAre(in.Quarantined)),
			Remedy: "run `shardway quarantine` to list them, and use --lift to end it",
		})
	}
	if in.StaleQuarantines > 0 {
		findings = append(findings, Finding{
			Code: QuarantineStale, Severity: Warning,
			Text:   fmt.Sprintf("%s in quarantine %s not refused, because the hashes were made with a secret that is no longer in use", pluralize(in.StaleQuarantines, "key"), isOrAre(in.StaleQuarantines)),
			Remedy: "quarantine the keys again, and lift the old entries",
		})
	}
	return findings
}

// uncordonRemedy returns the command that ends the drain, cordon or exclusion of nodes. state names what it ends.
func uncordonRemedy(nodes []string, state string) string {
	if len(nodes) == 1 {
		return "run `shardway uncordon " + nodes[0] + "` to end " + state
	}
	return "run `shardway uncordon NODE` for each of them to end " + state
}

// markedFailedFindings reports nodes that an operator has marked as failed.
func markedFailedFindings(in Inputs) []Finding {
	marked, shards := in.nodeIDs(func(node Node) bool { return node.MarkedFailed }), 0
	if len(marked) == 0 {
		return nil
	}
	for _, node := range in.Nodes {
		if node.MarkedFailed {
			shards += node.Shards
		}
	}
	text := fmt.Sprintf("%s %s marked as failed and %s no shards", joinNames(marked), isOrAre(len(marked)), inflect(len(marked), "gets", "get"))
	if shards > 0 {
		text = fmt.Sprintf("%s %s marked as failed, and %s %s still", joinNames(marked), isOrAre(len(marked)), inflect(len(marked), "owns", "own"), pluralize(shards, "shard"))
	}
	return []Finding{{Code: MarkedFailed, Severity: Info, Text: text, Remedy: "repair " + inflect(len(marked), "the node", "the nodes") + ", then " + uncordonRemedy(marked, "the exclusion")}}
}

// drainFindings reports drained nodes, nodes that stop, and shards that a safe drain leaves on a node.
func drainFindings(in Inputs) (findings []Finding) {
	if in.Stopping {
		findings = append(findings, Finding{
			Code: Draining, Severity: Info, Subject: "self", Text: fmt.Sprintf("node %s is to stop, and hands its shards over", in.Self),
			Remedy: "wait until its process stops; the next process owns shards again",
		})
	}
	var drained, stopping []string
	remainingShards := 0
	for _, node := range in.Nodes {
		switch {
		case node.MarkedFailed: // see markedFailedFindings
		case node.Drained:
			drained, remainingShards = append(drained, node.ID), remainingShards+node.Shards
		case node.Stopping && node.ID != in.Self:
			stopping = append(stopping, node.ID)
		}
	}
	if len(drained) > 0 {
		text := fmt.Sprintf("%s %s drained, and %s nothing", joinNames(drained), isOrAre(len(drained)), inflect(len(drained), "owns", "own"))
		if remainingShards > 0 {
			text = fmt.Sprintf("%s %s drained, and %s %s still", joinNames(drained), isOrAre(len(drained)), inflect(len(drained), "owns", "own"), pluralize(remainingShards, "shard"))
		}
		remedy := uncordonRemedy(drained, "it")
		if remainingShards > 0 {
			remedy = "run `shardway status` on the drained node to see why shards stay; " + uncordonRemedy(drained, "the drain")
		}
		findings = append(findings, Finding{Code: Draining, Severity: Info, Text: text, Remedy: remedy})
	}
	for _, node := range in.Nodes {
		if node.Drained && !node.MarkedFailed && node.UnmovedShards > 0 {
			findings = append(findings, unmovedShardsFinding(node))
		}
	}
	if len(stopping) > 0 {
		findings = append(findings, Finding{
			Code: Draining, Severity: Info, Subject: "leaving", Text: fmt.Sprintf("%s %s to stop, and to hand over what %s", joinNames(stopping), isOrAre(len(stopping)), theyOwn(len(stopping))),
			Remedy: "wait until the process stops",
		})
	}
	return findings
}

// unmovedShardsFinding reports the shards that a safe drain leaves on a node.
func unmovedShardsFinding(node Node) Finding {
	finding := Finding{
		Code: Draining, Severity: Info, Subject: node.ID,
		Text:   fmt.Sprintf("the safe drain leaves %s at node %s, because its app has not released %s", pluralize(node.UnmovedShards, "shard"), node.ID, itOrThem(node.UnmovedShards)),
		Remedy: fmt.Sprintf("repair the app and run `shardway drain --safe %s` again, or run `shardway drain %s` to move %s without a release", node.ID, node.ID, itOrThem(node.UnmovedShards)),
	}
	if node.UnmovedReason != "" {
		finding.Brief = finding.Text
		finding.Text += ": " + node.UnmovedReason
	}
	return finding
}

// theyOwn returns the subject and the verb for count nodes.
func theyOwn(count int) string {
	if count == 1 {
		return "it owns"
	}
	return "they own"
}
