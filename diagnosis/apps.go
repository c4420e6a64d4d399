package diagnosis

import (
	"fmt"
	"strings"
)

// appFindings returns the findings about the apps of all nodes.
func appFindings(in Inputs) (out []Finding) {
	owners := in.pick(func(n Node) bool { return n.Alive && !n.Gateway })
	gateways := in.pick(func(n Node) bool { return n.Alive && n.Gateway })
	unhealthyNodes := in.pick(func(n Node) bool { return n.Alive && !n.Gateway && n.App == AppFailing })
	led := in.Leader != "" // only the leader knows the apps of all nodes
	switch {
	case led && in.OnlyGateways:
		return []Finding{
			{
				Code: NoHealthyApp, Severity: Outage, Text: fmt.Sprintf("no node has an app (%s)", list(gateways)),
				Remedy: "start a node with --upstream and the URL of the app",
			},
			noAppFinding(in, Warning, ""),
		}
	case led && len(owners) > 0 && len(unhealthyNodes) == len(owners):
		text := "no node has an app that responds: "
		why := in.listWithErrors(unhealthyNodes)
		f := Finding{Code: NoHealthyApp, Severity: Outage, Text: text + why, Brief: text + list(unhealthyNodes), Remedy: "start the app of a node, or correct --upstream and --health"}
		if f.Brief == f.Text {
			f.Brief = ""
		}
		out = append(out, f)
	case led && len(unhealthyNodes) > 0 && len(in.pick(func(n Node) bool { return n.KeepsShards })) > 0:
		// An unhealthy app is reported after a delay, but an unhealthy app that keeps its shards at once.
		unhealthy := in.pick(func(n Node) bool { return n.Alive && !n.Gateway && (n.App == AppFailing || n.KeepsShards) })
		out = append(out, in.healthPanic(unhealthy, len(owners)))
	case len(unhealthyNodes) > 0:
		text := fmt.Sprintf("the app of node %s does not answer", list(unhealthyNodes))
		f := Finding{Code: AppUnhealthy, Severity: Warning, Text: text, Remedy: "start the app, or correct --upstream and --health; other nodes own its shards until then"}
		if len(unhealthyNodes) > 1 {
			f.Remedy = "start the apps, or correct --upstream and --health; other nodes own their shards until then"
		}
		if why := in.listWithErrors(unhealthyNodes); why != list(unhealthyNodes) {
			f.Text, f.Brief = "the app does not answer: "+why, text
		}
		out = append(out, f)
	}
	out = append(out, flappingFindings(in)...)
	out = append(out, appNotResponding(in)...)
	out = append(out, staleReturnFindings(in)...)
	if in.Gateway {
		out = append(out, noAppFinding(in, Info, ", and forwards to the others"))
	}
	return out
}

// healthPanic reports that shards stay at unhealthy apps because most apps are unhealthy.
func (in Inputs) healthPanic(unhealthyNodes []string, owners int) Finding {
	brief := fmt.Sprintf("%d of %d apps are unhealthy (%s), so shards stay where they are and requests go to their app", len(unhealthyNodes), owners, list(unhealthyNodes))
	if 2*len(unhealthyNodes) <= owners {
		brief = fmt.Sprintf("most apps were unhealthy a moment ago, so shards stay where they are; %s still %s", list(unhealthyNodes), isOrAre(len(unhealthyNodes)))
	}
	f := Finding{
		Code: HealthPanic, Severity: Outage, Text: brief,
		Remedy: "check what all apps depend on, such as a database; shards leave a single unhealthy app once most apps are healthy for 5 s",
	}
	if why := in.listWithErrors(unhealthyNodes); why != list(unhealthyNodes) {
		f.Text, f.Brief = brief+": "+why, brief
	}
	return f
}

// flappingFindings reports apps that get no shards yet because they became unhealthy repeatedly.
func flappingFindings(in Inputs) (out []Finding) {
	for _, n := range in.Nodes {
		if n.NoShardsFor <= 0 || !n.Alive {
			continue
		}
		out = append(out, Finding{
			Code: AppFlapping, Severity: Warning, Subject: n.ID,
			Text:   fmt.Sprintf("the app of node %s became unhealthy %d times in a row: node %s gets shards once its app has been healthy for longer (up to 5 min)", n.ID, n.FailuresInRow, n.ID),
			Remedy: "find out why its health check fails intermittently; raise --health-fall or --health-timeout if the app is only slow",
		})
	}
	return out
}

// appNotResponding reports that the app of this node begins no response.
func appNotResponding(in Inputs) []Finding {
	if in.AppSilent <= 0 {
		return nil
	}
	text := fmt.Sprintf("the app of node %s has begun no response for %d s: %s %s waiting", in.Self, int(in.AppSilent.Seconds()), pluralize(in.AppWaiting, "request"), isOrAre(in.AppWaiting))
	if in.AppUnread > 0 {
		text += fmt.Sprintf(", and the app has not read %d of them", in.AppUnread)
	}
	return []Finding{{
		Code: AppNotResponding, Severity: Warning, Text: text,
		Remedy: "check what the app waits for, or restart it; set --health so that its shards move to other nodes when the app hangs",
	}}
}

// staleReturnFindings reports shards that went back to an app which has not restarted.
func staleReturnFindings(in Inputs) (out []Finding) {
	for _, n := range in.Nodes {
		if n.StaleReturns == 0 {
			continue
		}
		out = append(out, Finding{
			Code: StaleReturn, Severity: Warning, Subject: n.ID,
			Text: fmt.Sprintf("%s returned to the app of node %s, which had %s before and has not restarted: no other node could own %s",
				pluralize(n.StaleReturns, "shard"), n.ID, itOrThem(n.StaleReturns), itOrThem(n.StaleReturns)),
			Remedy: fmt.Sprintf("restart the app of node %s, or run: shardway app-restarted %s", n.ID, n.ID),
		})
	}
	return out
}

func noAppFinding(in Inputs, s Severity, what string) Finding {
	if !in.Gateway {
		return Finding{Code: NoApp, Severity: s, Text: "every node is a gateway, because --upstream is missing", Remedy: "set --upstream to the URL of the app"}
	}
	return Finding{
		Code: NoApp, Severity: s, Text: fmt.Sprintf("node %s is a gateway, because --upstream is missing: it owns nothing%s", in.Self, what),
		Remedy: "set --upstream to the URL of its app, if the node has one",
	}
}

// listWithErrors joins the names of nodes, each with the error of its health check if known.
func (in Inputs) listWithErrors(ids []string) string {
	why := map[string]string{}
	for _, n := range in.Nodes {
		why[n.ID] = n.HealthError
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = id
		if why[id] != "" {
			names[i] += " (" + why[id] + ")"
		}
	}
	return strings.TrimSpace(list(names))
}
