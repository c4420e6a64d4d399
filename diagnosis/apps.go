package diagnosis

import (
	"fmt"
	"strings"
)

// appFindings returns the findings about the apps of all nodes.
func appFindings(in Inputs) (findings []Finding) {
	hasLeader := in.Leader != "" // only the leader knows the apps of all nodes
	if hasLeader && in.OnlyGateways {
		return []Finding{in.noNodeWithAppFinding(), noAppFinding(in, Warning, "")}
	}
	hasApp := func(node Node) bool { return node.Alive && !node.Gateway }
	withApp := in.nodeIDs(hasApp)
	unhealthy := in.nodeIDs(func(node Node) bool { return hasApp(node) && node.App == AppFailing })
	keepingShards := in.nodeIDs(func(node Node) bool { return node.KeepsShards })
	switch {
	case len(unhealthy) == 0:
	case hasLeader && len(unhealthy) == len(withApp):
		findings = append(findings, in.noHealthyAppFinding(unhealthy))
	case hasLeader && len(keepingShards) > 0:
		// An unhealthy app is reported after a delay, but an unhealthy app that keeps its shards at
		// once.
		unhealthyOrKeeping := in.nodeIDs(func(node Node) bool {
			return hasApp(node) && (node.App == AppFailing || node.KeepsShards)
		})
		findings = append(findings, in.healthPanicFinding(unhealthyOrKeeping, len(withApp)))
	default:
		findings = append(findings, in.unhealthyAppFinding(unhealthy))
	}
	findings = append(findings, instanceFindings(in)...)
	findings = append(findings, flappingFindings(in)...)
	findings = append(findings, appResponseFindings(in)...)
	findings = append(findings, staleReturnFindings(in)...)
	if in.Gateway {
		findings = append(findings, noAppFinding(in, Info, ", and forwards to the others"))
	}
	return findings
}

// noNodeWithAppFinding reports that all nodes are gateways.
func (in Inputs) noNodeWithAppFinding() Finding {
	gateways := in.nodeIDs(func(node Node) bool { return node.Alive && node.Gateway })
	return Finding{
		Code: NoHealthyApp, Severity: Outage, Text: fmt.Sprintf("no node has an app (%s)", joinNames(gateways)),
		Remedy: "start a node with --upstream and the URL of the app",
	}
}

// noHealthyAppFinding reports that the apps of all nodes are unhealthy.
func (in Inputs) noHealthyAppFinding(unhealthyNodes []string) Finding {
	text := "no node has an app that responds: "
	finding := Finding{
		Code: NoHealthyApp, Severity: Outage,
		Text:   text + in.joinNamesWithErrors(unhealthyNodes),
		Brief:  text + joinNames(unhealthyNodes),
		Remedy: "start the app of a node, or correct --upstream and --health",
	}
	if finding.Brief == finding.Text {
		finding.Brief = ""
	}
	return finding
}

// unhealthyAppFinding reports nodes whose app is unhealthy, while other apps are healthy.
func (in Inputs) unhealthyAppFinding(unhealthyNodes []string) Finding {
	text := fmt.Sprintf("the app of node %s does not answer", joinNames(unhealthyNodes))
	finding := Finding{
		Code: AppUnhealthy, Severity: Warning, Text: text,
		Remedy: "start the app, or correct --upstream and --health; other nodes own its shards until then",
	}
	if len(unhealthyNodes) > 1 {
		finding.Remedy = "start the apps, or correct --upstream and --health; other nodes own their shards until then"
	}
	if errors := in.joinNamesWithErrors(unhealthyNodes); errors != joinNames(unhealthyNodes) {
		finding.Text, finding.Brief = "the app does not answer: "+errors, text
	}
	return finding
}

// instanceFindings reports the app instances that are unhealthy while a sibling is healthy.
func instanceFindings(in Inputs) []Finding {
	var names, withErrors, drained []string
	for _, node := range in.Nodes {
		if !node.Alive || node.App == AppFailing || node.KeepsShards {
			continue // another finding reports the whole app of the node
		}
		if node.Drained && node.Shards > 0 && len(node.UnhealthyInstances) > 0 {
			drained = append(drained, node.ID)
		}
		for _, instance := range node.UnhealthyInstances {
			name := fmt.Sprintf("%s/%d", node.ID, instance.Number)
			names = append(names, name)
			if instance.HealthError != "" {
				name += " (" + instance.HealthError + ")"
			}
			withErrors = append(withErrors, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	finding := Finding{
		Code: InstanceUnhealthy, Severity: Warning,
		Text:   "the app instance " + joinNames(names) + " does not answer",
		Remedy: "start the app instance, or correct --upstream and --health; other instances of its node own its shards until then",
	}
	if len(names) > 1 {
		finding.Text = "the app instances " + joinNames(names) + " do not answer"
		finding.Remedy = "start the app instances, or correct --upstream and --health; other instances of their nodes own their shards until then"
	}
	if len(drained) > 0 { // a hung instance of a drained node keeps the shards that it has not released
		repair, _, _ := strings.Cut(finding.Remedy, ";")
		finding.Remedy = repair + "; drain " + joinNames(drained) + " without --safe to move shards that a safe drain has left there"
	}
	if joined := joinNames(withErrors); joined != joinNames(names) {
		finding.Text, finding.Brief = strings.Replace(finding.Text, joinNames(names), joined, 1), finding.Text
	}
	return []Finding{finding}
}

// healthPanicFinding reports that shards stay at unhealthy apps because most apps are unhealthy.
func (in Inputs) healthPanicFinding(unhealthyNodes []string, owners int) Finding {
	brief := fmt.Sprintf("%d of %d apps are unhealthy (%s), so shards stay where they are and requests go to their app", len(unhealthyNodes), owners, joinNames(unhealthyNodes))
	if 2*len(unhealthyNodes) <= owners {
		brief = fmt.Sprintf("most apps were unhealthy a moment ago, so shards stay where they are; %s still %s", joinNames(unhealthyNodes), isOrAre(len(unhealthyNodes)))
	}
	finding := Finding{
		Code: HealthPanic, Severity: Outage, Text: brief,
		Remedy: "check what all apps depend on, such as a database; shards leave a single unhealthy app once most apps are healthy for 5 s",
	}
	if errors := in.joinNamesWithErrors(unhealthyNodes); errors != joinNames(unhealthyNodes) {
		finding.Text, finding.Brief = brief+": "+errors, brief
	}
	return finding
}

// flappingFindings reports apps that get no shards yet because they became unhealthy repeatedly.
func flappingFindings(in Inputs) (findings []Finding) {
	for _, node := range in.Nodes {
		if node.NoShardsFor <= 0 || !node.Alive {
			continue
		}
		findings = append(findings, Finding{
			Code: AppFlapping, Severity: Warning, Subject: node.ID,
			Text:   fmt.Sprintf("the app of node %s became unhealthy %d times in a row: node %s gets shards once its app has been healthy for longer (up to 5 min)", node.ID, node.FailuresInRow, node.ID),
			Remedy: "find out why its health check fails intermittently; raise --health-fall or --health-timeout if the app is only slow",
		})
	}
	return findings
}

// appResponseFindings reports that the app of this node begins no response.
func appResponseFindings(in Inputs) []Finding {
	if in.AppSilentFor <= 0 {
		return nil
	}
	text := fmt.Sprintf("the app of node %s has begun no response for %d s: %s %s waiting", in.Self, int(in.AppSilentFor.Seconds()), pluralize(in.AppPendingRequests, "request"), isOrAre(in.AppPendingRequests))
	if in.AppUnreadRequests > 0 {
		text += fmt.Sprintf(", and the app has not read %d of them", in.AppUnreadRequests)
	}
	return []Finding{{
		Code: AppNotResponding, Severity: Warning, Text: text,
		Remedy: "check what the app waits for, or restart it; set --health so that its shards move to other nodes when the app hangs",
	}}
}

// staleReturnFindings reports shards that went back to an app which has not restarted.
func staleReturnFindings(in Inputs) (findings []Finding) {
	for _, node := range in.Nodes {
		if node.StaleReturns == 0 {
			continue
		}
		findings = append(findings, Finding{
			Code: StaleReturn, Severity: Warning, Subject: node.ID,
			Text: fmt.Sprintf("%s returned to the app of node %s, which had %s before and has not restarted: no other node could own %s",
				pluralize(node.StaleReturns, "shard"), node.ID, itOrThem(node.StaleReturns), itOrThem(node.StaleReturns)),
			Remedy: fmt.Sprintf("restart the app of node %s, or run: shardway app-restarted %s", node.ID, node.ID),
		})
	}
	return findings
}

// noAppFinding reports that this node, or every node, has no app. suffix is appended to the text about
// this node.
func noAppFinding(in Inputs, severity Severity, suffix string) Finding {
	if !in.Gateway {
		return Finding{Code: NoApp, Severity: severity, Text: "every node is a gateway, because --upstream is missing", Remedy: "set --upstream to the URL of the app"}
	}
	return Finding{
		Code: NoApp, Severity: severity, Text: fmt.Sprintf("node %s is a gateway, because --upstream is missing: it owns nothing%s", in.Self, suffix),
		Remedy: "set --upstream to the URL of its app, if the node has one",
	}
}

// joinNamesWithErrors joins the names of nodes, each with the error of its health check if known.
func (in Inputs) joinNamesWithErrors(ids []string) string {
	errors := map[string]string{}
	for _, node := range in.Nodes {
		errors[node.ID] = node.HealthError
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id
		if errors[id] != "" {
			names[i] += " (" + errors[id] + ")"
		}
	}
	return strings.TrimSpace(joinNames(names))
}
