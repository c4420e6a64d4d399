package admin

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
)

// view is a Status as text for the dashboard. If scripts are enabled, nodes.js and verdict.js
// update the page later; they must produce the same texts.
type view struct {
	Locked   bool
	Title    string
	Severity string // ok, info, warning, outage
	Mark     string // symbol for the severity, for users who cannot distinguish colours
	Word     string
	Headline string
	Findings []diagnosis.Finding // Headline is the text of the first
	Facts    []fact
	NodesSum string
	Columns  []column
	Rows     []row

	Style  template.CSS
	Script template.JS
}

type fact struct{ Name, Value string }

type column struct{ Key, Head string }

// row is one node. Rows are sorted by Trouble, highest first (see troubleOf).
type row struct {
	Trouble int
	Cells   []cell
}

type cell struct {
	column
	Text, Note string
	Page       string // link target of Text
	Permille   int    // for the column share: permille of twice the average number of shards
}

// Severities of a page, ascending.
const (
	sevOK      = "ok"
	sevInfo    = "info"
	sevWarning = "warning"
	sevOutage  = "outage"
)

// columns returns the columns of the table of nodes.
func columns() []column {
	return []column{
		{"node", "node"},
		{"state", "state"},
		{"role", "role"},
		{"zone", "zone"},
		{"app", "app"},
		{"share", "shards"},
		{"weight", "weight"},
		{"lease", "lease"},
		{"heard", "heard"},
		{"running", "in flight"},
		{"waiting", "queued"},
		{"version", "version"},
	}
}

// viewOf returns the contents of the status page. Nodes with problems come first.
func viewOf(status api.Status) view {
	page := view{Findings: status.Findings, Facts: facts(status), Columns: columns(), NodesSum: countByState(status.Nodes)}
	page.Severity, page.Word, page.Headline = headline(status)
	page.Mark = symbolOf(page.Severity)
	page.Title = page.Headline + " · " + status.Node + " · Shardway"
	if page.Severity != sevOK {
		page.Title = page.Mark + " " + page.Title
	}
	nodes := slices.Clone(status.Nodes)
	slices.SortStableFunc(nodes, func(a, b api.Node) int { return cmp.Compare(troubleOf(b), troubleOf(a)) })
	for _, node := range nodes {
		page.Rows = append(page.Rows, rowOf(node, status))
	}
	return page
}

// symbolOf returns the symbol of a severity.
func symbolOf(severity string) string {
	switch severity {
	case sevOutage:
		return "✕"
	case sevWarning:
		return "△"
	case sevInfo:
		return "◇"
	}
	return "✓"
}

// headline summarizes the status: the codes of the most severe findings and the text of the first,
// or the current activity if there are none.
func headline(status api.Status) (severity, word, text string) {
	if worst := diagnosis.Worst(status.Findings); worst > 0 {
		words := map[diagnosis.Severity]string{diagnosis.Outage: "Outage", diagnosis.Warning: "Warning", diagnosis.Info: "Note"}
		codes := codesOf(status.Findings, worst)
		return worst.String(), words[worst] + ": " + strings.Join(codes, ", "), status.Findings[0].Text
	}
	switch shards := status.Shards; {
	case status.State != "operational" && status.State != "rebalancing":
		return sevInfo, "Rebalancing", status.Node + " is " + status.State
	case shards.Unavailable > 0:
		return sevInfo, "Rebalancing", fmt.Sprintf("%d of %s unavailable", shards.Unavailable, count(shards.Total, "shard"))
	case shards.Moving > 0:
		return sevInfo, "Rebalancing", fmt.Sprintf("%d of %s on the move", shards.Moving, count(shards.Total, "shard"))
	default:
		return sevOK, "Healthy", fmt.Sprintf("All %s served, by %s", count(shards.Total, "shard"), count(owners(status.Nodes), "node"))
	}
}

// codesOf returns the codes of the findings with a severity, each once.
func codesOf(findings []diagnosis.Finding, severity diagnosis.Severity) []string {
	var codes []string
	for _, finding := range findings {
		code := string(finding.Code)
		if finding.Severity == severity && !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	return codes
}

// owners returns the number of nodes that own shards.
func owners(nodes []api.Node) int {
	ownerCount := 0
	for _, node := range nodes {
		if node.Shards > 0 {
			ownerCount++
		}
	}
	return ownerCount
}

// facts returns the properties of the cluster and of the responding node that the status page shows.
func facts(status api.Status) []fact {
	epoch := strconv.FormatUint(status.Epoch, 10)
	if status.Proposed > status.Epoch {
		epoch += " → " + strconv.FormatUint(status.Proposed, 10)
	}
	all := []fact{
		{"source", status.Node + ", " + status.Role},
		{"leader", leaderText(status)},
		{"state of the cluster", clusterStateText(status)},
		{"epoch", epoch},
		{"term", strconv.FormatUint(status.Term, 10)},
		{"shards here", fmt.Sprintf("%d of %d", status.Shards.Owned, status.Shards.Total)},
		{"held here", strconv.Itoa(status.Shards.Held)},
		{"moving", strconv.Itoa(status.Shards.Moving)},
		{"unavailable", strconv.Itoa(status.Shards.Unavailable)},
		{"orphaned", strconv.Itoa(status.Shards.Orphaned)},
		{"queued here", count(status.Queue.Queued, "request")},
		{"cluster", cmp.Or(status.Cluster, "none yet")},
		{"up", (time.Duration(status.UptimeS) * time.Second).String()},
	}
	if t := status.Timing; t != nil {
		all = append(all, fact{"settings", fmt.Sprintf("lease %s, dead after %s, takeover %s", t.Lease, t.DeadAfter, t.Takeover)})
	}
	if k := status.Keys; k != nil {
		all = append(all, fact{"keys", k.String()})
	}
	return all
}

// leaderText returns the leader, since when it leads, and how long its lease lasts.
func leaderText(status api.Status) string {
	text := cmp.Or(status.Leader, "none")
	if status.LeaderSince != nil {
		text += " since " + status.LeaderSince.Format(time.RFC3339)
	}
	if status.LeaderLeaseMS != nil {
		text += ", lease for " + milliseconds(*status.LeaderLeaseMS)
	}
	return text
}

// clusterStateText returns the state of the cluster with its reason.
func clusterStateText(status api.Status) string {
	if status.ClusterReason == "" {
		return status.ClusterState
	}
	return status.ClusterState + ": " + status.ClusterReason
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// countByState returns the number of nodes in each state, most frequent state first.
func countByState(nodes []api.Node) string {
	counts := map[string]int{}
	var states []string
	for _, node := range nodes {
		if counts[node.State] == 0 {
			states = append(states, node.State)
		}
		counts[node.State]++
	}
	slices.SortFunc(states, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for i, s := range states {
		states[i] = fmt.Sprintf("%d %s", counts[s], s)
	}
	return strings.Join(states, ", ")
}

// troubleOf returns 2 for a failed or suspect node, 1 for a node in transition or with an app instance that is not
// active, and 0 otherwise.
func troubleOf(node api.Node) int {
	switch {
	case node.State == "failed" || node.State == "suspect" || node.State == "restarting" || node.App == "unhealthy":
		return 2
	case node.State != "active" || slices.ContainsFunc(node.Instances, func(instance api.Instance) bool { return instance.State != "active" }):
		return 1
	}
	return 0
}

// rowOf returns the row of a node in the table of the status page. status is the status of the responding node.
func rowOf(node api.Node, status api.Status) row {
	const unknown = "–"
	role := node.Role
	if node.Voter {
		role += ", voter"
	}
	heard := unknown
	if node.LastHeartbeatMS >= 0 {
		heard = milliseconds(node.LastHeartbeatMS)
	}
	// Only this node reports its lease and its queue.
	note, lease, queued := "", unknown, unknown
	var versions []string
	if node.Version != "" {
		versions = append(versions, node.Version)
	}
	if node.ID == status.Node {
		note, lease, queued = "this node", milliseconds(status.LeaseMS), strconv.Itoa(status.Queue.Queued)
		versions = []string{status.Version}
	}
	if node.AppVersion != "" {
		versions = append(versions, "app "+node.AppVersion)
	}
	cells := map[string]cell{
		"node":    {Text: node.ID, Note: note, Page: dashboardURL(node, status)},
		"state":   {Text: node.State},
		"role":    {Text: role, Note: strings.Join(node.Roles, ", ")},
		"zone":    {Text: cmp.Or(node.Zone, unknown), Note: labelsText(node)},
		"app":     {Text: node.App, Note: instancesText(node.Instances)},
		"share":   shareCell(node, status),
		"weight":  {Text: strconv.FormatUint(uint64(node.Weight), 10)},
		"lease":   {Text: lease},
		"heard":   {Text: heard},
		"running": {Text: unknown},
		"waiting": {Text: queued},
		"version": {Text: cmp.Or(strings.Join(versions, ", "), unknown)},
	}
	result := row{Trouble: troubleOf(node)}
	for _, column := range columns() {
		shown := cells[column.Key]
		shown.column = column
		result.Cells = append(result.Cells, shown)
	}
	return result
}

// labelsText returns the region and the metadata of a node.
func labelsText(node api.Node) string {
	var labels []string
	if node.Region != "" {
		labels = append(labels, "region "+node.Region)
	}
	for _, key := range slices.Sorted(maps.Keys(node.Meta)) {
		labels = append(labels, key+"="+node.Meta[key])
	}
	return strings.Join(labels, " · ")
}

// instancesText returns the shards of each app instance of a node, and the state of those that are not active.
// It is empty for a node with one instance.
func instancesText(instances []api.Instance) string {
	texts := make([]string, len(instances))
	for i, instance := range instances {
		texts[i] = fmt.Sprintf("%d: %s", instance.Number, count(instance.Shards, "shard"))
		if instance.State != "active" {
			texts[i] += ", " + instance.State
		}
	}
	return strings.Join(texts, " · ")
}

// shareCell returns the cell with the number of shards of a node and their percentage.
func shareCell(node api.Node, status api.Status) cell {
	percent := permille(node.Shards, status.Shards.Total) / 10
	return cell{
		Text:     strconv.Itoa(node.Shards),
		Note:     fmt.Sprintf("%d %%", percent),
		Permille: permille(node.Shards*owners(status.Nodes), 2*status.Shards.Total),
	}
}

// dashboardURL returns the address of the dashboard of another node, or "" if the node announces
// no valid admin address.
func dashboardURL(node api.Node, status api.Status) string {
	if node.ID == status.Node {
		return ""
	}
	addr := node.Endpoints["admin"]
	host, port, err := net.SplitHostPort(addr)
	isValidHost := host != "" && strings.Trim(host, hostChars) == ""
	if err != nil || !isValidHost {
		return ""
	}
	if _, err = strconv.ParseUint(port, 10, 16); err != nil {
		return ""
	}
	return "//" + addr + "/status"
}

// hostChars are the characters of host names and IP addresses.
const hostChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:"

// milliseconds formats a duration with a precision that decreases with its length.
func milliseconds(millis int64) string {
	switch {
	case millis < 1000:
		return fmt.Sprintf("%d ms", millis)
	case millis < 60_000:
		return fmt.Sprintf("%.1f s", float64(millis)/1000)
	}
	return (time.Duration(millis) * time.Millisecond).Truncate(time.Second).String()
}

func permille(part, whole int) int {
	if whole <= 0 {
		return 0
	}
	return min(1000, part*1000/whole)
}
