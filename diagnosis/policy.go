package diagnosis

import (
	"fmt"
	"strings"
)

// policyFindings returns the findings about requests of operators, and about actions that they
// should take.
func policyFindings(in Inputs) (findings []Finding) {
	for _, suspect := range in.PoisonSuspects {
		findings = append(findings, Finding{
			Code: PoisonSuspect, Severity: Warning, Subject: fmt.Sprintf("%d/%016x", suspect.Shard, suspect.Hash),
			Text:   fmt.Sprintf("requests of the key with key_hash %016x, in shard %d, were under way at %s when these broke", suspect.Hash, suspect.Shard, strings.Join(suspect.Nodes, " and ")),
			Remedy: fmt.Sprintf("run `shardway quarantine --shard %d --hash %016x` to refuse these requests on all nodes", suspect.Shard, suspect.Hash),
		})
	}
	findings = append(findings, drainFindings(in)...)
	if in.PausedMovesFor != "" {
		findings = append(findings, Finding{Code: Paused, Severity: Info, Text: "planned moves of shards are paused for " + in.PausedMovesFor, Remedy: "run `shardway resume` to end it"})
	}
	if ids := in.nodeIDs(func(n Node) bool { return n.Cordoned && !n.Drained }); len(ids) > 0 {
		findings = append(findings, Finding{
			Code: Cordoned, Severity: Info, Text: fmt.Sprintf("%s %s cordoned and %s no further shards", joinNames(ids), isOrAre(len(ids)), inflect(len(ids), "gets", "get")),
			Remedy: "run `shardway uncordon` to end it",
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

func drainFindings(in Inputs) (findings []Finding) {
	if in.Stopping {
		findings = append(findings, Finding{
			Code: Draining, Severity: Info, Subject: "self", Text: fmt.Sprintf("node %s is to stop, and hands its shards over", in.Self),
			Remedy: "wait until its process stops; the next process owns shards again",
		})
	}
	var drained, stopping []string
	shards := 0
	for _, n := range in.Nodes {
		switch {
		case n.Drained:
			drained, shards = append(drained, n.ID), shards+n.Shards
		case n.Stopping && n.ID != in.Self:
			stopping = append(stopping, n.ID)
		}
	}
	if len(drained) > 0 {
		text := fmt.Sprintf("%s %s drained, and %s nothing", joinNames(drained), isOrAre(len(drained)), inflect(len(drained), "owns", "own"))
		if shards > 0 {
			text = fmt.Sprintf("%s %s drained, and %s %s still", joinNames(drained), isOrAre(len(drained)), inflect(len(drained), "owns", "own"), pluralize(shards, "shard"))
		}
		remedy := "run `shardway uncordon` to end it"
		if shards > 0 {
			remedy = "run `shardway status` on the drained node to see why shards stay; run `shardway uncordon` to end the drain"
		}
		findings = append(findings, Finding{Code: Draining, Severity: Info, Text: text, Remedy: remedy})
	}
	for _, n := range in.Nodes {
		if n.Drained && n.UnmovedShards > 0 {
			findings = append(findings, unmovedShardsFinding(n))
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
func unmovedShardsFinding(n Node) Finding {
	finding := Finding{
		Code: Draining, Severity: Info, Subject: n.ID,
		Text:   fmt.Sprintf("the safe drain leaves %s at node %s, because its app has not released %s", pluralize(n.UnmovedShards, "shard"), n.ID, itOrThem(n.UnmovedShards)),
		Remedy: fmt.Sprintf("repair the app and run `shardway drain --safe %s` again, or run `shardway drain %s` to move %s without a release", n.ID, n.ID, itOrThem(n.UnmovedShards)),
	}
	if n.UnmovedReason != "" {
		finding.Brief = finding.Text
		finding.Text += ": " + n.UnmovedReason
	}
	return finding
}

// theyOwn returns the subject and the verb for n nodes.
func theyOwn(n int) string {
	if n == 1 {
		return "it owns"
	}
	return "they own"
}
