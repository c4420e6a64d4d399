package admin

import (
	"cmp"
	"fmt"
	"html/template"
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

func viewOf(st api.Status) view {
	v := view{Findings: st.Findings, Facts: facts(st), Columns: columns(), NodesSum: countByState(st.Nodes)}
	v.Severity, v.Word, v.Headline = headline(st)
	v.Mark = symbolOf(v.Severity)
	v.Title = v.Headline + " · " + st.Node + " · Shardway"
	if v.Severity != sevOK {
		v.Title = v.Mark + " " + v.Title
	}
	nodes := slices.Clone(st.Nodes)
	slices.SortStableFunc(nodes, func(a, b api.Node) int { return cmp.Compare(troubleOf(b), troubleOf(a)) })
	for _, n := range nodes {
		v.Rows = append(v.Rows, rowOf(n, st))
	}
	return v
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
func headline(st api.Status) (severity, word, text string) {
	if worst := diagnosis.Worst(st.Findings); worst > 0 {
		var codes []string
		for _, f := range st.Findings {
			if f.Severity == worst && !slices.Contains(codes, string(f.Code)) {
				codes = append(codes, string(f.Code))
			}
		}
		words := map[diagnosis.Severity]string{diagnosis.Outage: "Outage", diagnosis.Warning: "Warning", diagnosis.Info: "Note"}
		return worst.String(), words[worst] + ": " + strings.Join(codes, ", "), st.Findings[0].Text
	}
	switch sh := st.Shards; {
	case st.State != "operational" && st.State != "rebalancing":
		return sevInfo, "Rebalancing", st.Node + " is " + st.State
	case sh.Unavailable > 0:
		return sevInfo, "Rebalancing", fmt.Sprintf("%d of %s unavailable", sh.Unavailable, count(sh.Total, "shard"))
	case sh.Moving > 0:
		return sevInfo, "Rebalancing", fmt.Sprintf("%d of %s on the move", sh.Moving, count(sh.Total, "shard"))
	default:
		return sevOK, "Healthy", fmt.Sprintf("All %s served, by %s", count(sh.Total, "shard"), count(owners(st.Nodes), "node"))
	}
}

func owners(nodes []api.Node) int {
	n := 0
	for _, x := range nodes {
		if x.Shards > 0 {
			n++
		}
	}
	return n
}

func facts(st api.Status) []fact {
	epoch := strconv.FormatUint(st.Epoch, 10)
	if st.Proposed > st.Epoch {
		epoch += " → " + strconv.FormatUint(st.Proposed, 10)
	}
	all := []fact{
		{"source", st.Node + ", " + st.Role},
		{"leader", cmp.Or(st.Leader, "none")},
		{"epoch", epoch},
		{"term", strconv.FormatUint(st.Term, 10)},
		{"shards here", fmt.Sprintf("%d of %d", st.Shards.Owned, st.Shards.Total)},
		{"held here", strconv.Itoa(st.Shards.Held)},
		{"moving", strconv.Itoa(st.Shards.Moving)},
		{"unavailable", strconv.Itoa(st.Shards.Unavailable)},
		{"orphaned", strconv.Itoa(st.Shards.Orphaned)},
		{"queued here", count(st.Queue.Queued, "request")},
		{"cluster", cmp.Or(st.Cluster, "none yet")},
		{"up", (time.Duration(st.UptimeS) * time.Second).String()},
	}
	if t := st.Timing; t != nil {
		all = append(all, fact{"settings", fmt.Sprintf("lease %s, dead after %s, takeover %s", t.Lease, t.DeadAfter, t.Takeover)})
	}
	if k := st.Keys; k != nil {
		all = append(all, fact{"keys", k.String()})
	}
	return all
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// countByState returns the number of nodes in each state, most frequent state first.
func countByState(nodes []api.Node) string {
	counts := map[string]int{}
	var states []string
	for _, n := range nodes {
		if counts[n.State]++; counts[n.State] == 1 {
			states = append(states, n.State)
		}
	}
	slices.SortFunc(states, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for i, s := range states {
		states[i] = fmt.Sprintf("%d %s", counts[s], s)
	}
	return strings.Join(states, ", ")
}

// troubleOf returns 2 for a failed node, 1 for a node in transition, and 0 otherwise.
func troubleOf(n api.Node) int {
	switch {
	case n.State == "failed" || n.State == "restarting" || n.App == "unhealthy":
		return 2
	case n.State != "active":
		return 1
	}
	return 0
}

func rowOf(n api.Node, st api.Status) row {
	const unknown = "–"
	role, note, heard, lease, waiting := n.Role, "", unknown, unknown, unknown
	if n.Voter {
		role += ", voter"
	}
	if n.LastHeartbeatMS >= 0 {
		heard = milliseconds(n.LastHeartbeatMS)
	}
	var versions []string
	if n.ID == st.Node {
		note, lease, waiting = "this node", milliseconds(st.LeaseMS), strconv.Itoa(st.Queue.Queued)
		versions = append(versions, st.Version)
	}
	if n.AppVersion != "" {
		versions = append(versions, "app "+n.AppVersion)
	}
	r := row{Trouble: troubleOf(n)}
	cells := map[string]cell{
		"node": {Text: n.ID, Note: note, Page: dashboardURL(n, st)}, "state": {Text: n.State}, "role": {Text: role}, "zone": {Text: cmp.Or(n.Zone, unknown)}, "app": {Text: n.App},
		"share":  {Text: strconv.Itoa(n.Shards), Permille: permille(n.Shards*owners(st.Nodes), 2*st.Shards.Total), Note: fmt.Sprintf("%d %%", permille(n.Shards, st.Shards.Total)/10)},
		"weight": {Text: strconv.FormatUint(uint64(n.Weight), 10)}, "lease": {Text: lease}, "heard": {Text: heard}, "running": {Text: unknown},
		"waiting": {Text: waiting}, "version": {Text: cmp.Or(strings.Join(versions, ", "), unknown)},
	}
	for _, c := range columns() {
		x := cells[c.Key]
		x.column = c
		r.Cells = append(r.Cells, x)
	}
	return r
}

// dashboardURL returns the address of the dashboard of another node, or "" if the node announces
// no valid admin address.
func dashboardURL(n api.Node, st api.Status) string {
	addr := n.Endpoints["admin"]
	host, port, err := net.SplitHostPort(addr)
	if n.ID == st.Node || err != nil || host == "" || strings.Trim(host, hostChars) != "" {
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
func milliseconds(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	}
	return (time.Duration(ms) * time.Millisecond).Truncate(time.Second).String()
}

func permille(part, whole int) int {
	if whole <= 0 {
		return 0
	}
	return min(1000, part*1000/whole)
}
