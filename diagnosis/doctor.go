package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Codes of findings that need the reports of all nodes.
const (
	Unresponsive   Code = "unresponsive"
	LeadersDiffer  Code = "leaders-differ"
	MapsDiffer     Code = "maps-differ"
	Unreachable    Code = "unreachable"
	ClockDrift     Code = "clock-drift"
	MixedVersions  Code = "mixed-versions"
	SettingsDiffer Code = "settings-differ"
)

// DoctorCodes returns the codes that only Compare finds, in their order.
func DoctorCodes() []Code {
	return []Code{Unresponsive, LeadersDiffer, MapsDiffer, Unreachable, ClockDrift, MixedVersions, SettingsDiffer}
}

// maxClockDrift is the difference of the rates of two clocks above which Compare reports it. The
// protocol tolerates 10 %.
const maxClockDrift = 0.01

// Checkup contains the reports that a node has collected from all nodes, including itself.
type Checkup struct {
	From    string   `json:"from"` // the node that collected the reports
	Reports []Report `json:"reports"`
	// Unresponsive are the nodes that did not respond at their peer port in time.
	Unresponsive []string `json:"unresponsive"`
	// AskedNS and AnsweredNS are times by the clock of the collecting node. Each report was created
	// between them.
	AskedNS    int64 `json:"asked_ns"`
	AnsweredNS int64 `json:"answered_ns"`
}

// Report is the report of a node about itself.
type Report struct {
	Node     string    `json:"node"`
	Boot     uint64    `json:"boot"`
	Version  string    `json:"version"`
	State    string    `json:"state"`
	Leader   string    `json:"leader"` // empty if unknown
	Term     uint64    `json:"term"`
	Epoch    uint64    `json:"epoch"`            // of the committed map
	Timing   string    `json:"cluster_settings"` // in force
	Flags    string    `json:"flags"`            // the cluster-wide settings with which the node was started
	ClockNS  int64     `json:"clock_ns"`
	Findings []Finding `json:"findings"`
	// Settings are the settings that must be the same on all nodes, by name.
	Settings map[string]string `json:"settings"`
	// UnreachablePorts are the ports that the node cannot reach. It is empty unless the checkup
	// tests ports.
	UnreachablePorts []UnreachablePort `json:"unreached"`
}

// UnreachablePort is a port of a node that was not reachable.
type UnreachablePort struct {
	Node string `json:"node"`
	Port string `json:"port"` // gossip, peer, admin or http
	Addr string `json:"addr"`
	Why  string `json:"why"`
}

// MergedReports returns the findings of all nodes of a checkup without duplicates. Of duplicates,
// it keeps the finding of the leader, or otherwise the finding of the first node.
func MergedReports(checkup Checkup) (findings []Finding) {
	reports := slices.Clone(checkup.Reports)
	slices.SortStableFunc(reports, func(a, b Report) int {
		leads := func(report Report) int {
			if report.Leader == report.Node {
				return 0
			}
			return 1
		}
		return cmp.Compare(leads(a), leads(b))
	})
	for _, report := range reports {
		for _, finding := range report.Findings {
			namesItsNode := finding.Code == Acquiring && finding.Subject != ""
			if isNodeSpecific(finding.Code) && !namesItsNode {
				finding.Subject = report.Node + " " + finding.Text
			}
			if !slices.ContainsFunc(findings, finding.Same) {
				findings = append(findings, finding)
			}
		}
	}
	sortFindings(findings)
	return findings
}

// Merge returns the findings of several sources, most severe first and without duplicates.
func Merge(all ...[]Finding) []Finding {
	var merged []Finding
	for _, finding := range slices.Concat(all...) {
		if !slices.ContainsFunc(merged, finding.Same) {
			merged = append(merged, finding)
		}
	}
	sortFindings(merged)
	return merged
}

// isNodeSpecific reports whether a finding concerns only the node that reports it, so that two
// nodes report two different problems.
func isNodeSpecific(code Code) bool {
	return slices.Contains([]Code{
		LeaseTooLong, NoPeers, ClustersDiffer, Bootstrapping, NoLease, DuplicateNode, DiskStalled, AppNotResponding, NoApp, Joining, Acquiring, QueueFull, ProcessFailing, DiskSlow, ClockJump, CertificateExpiring,
		TagsNearlyFull, Insecure, WebhookFailing,
	}, code)
}

// Compare returns the findings from two successive checkups of one node. localUnreachable are the
// ports that are not reachable from the machine on which the command runs.
func Compare(first, second Checkup, localUnreachable []UnreachablePort) []Finding {
	return slices.Concat(
		unresponsiveFindings(second),
		leaderFindings(second),
		epochFindings(first, second),
		portFindings(second, localUnreachable),
		clockDriftFindings(first, second),
		versionFindings(second),
		startFlagFindings(second),
		settingFindings(Differences(second.settings())),
	)
}

// settings returns the settings of every node that has reported.
func (c Checkup) settings() (all []SettingsOf) {
	for _, report := range c.Reports {
		all = append(all, SettingsOf{Node: report.Node, Settings: report.Settings})
	}
	return all
}

// unresponsiveFindings reports nodes that did not respond to the checkup.
func unresponsiveFindings(checkup Checkup) (findings []Finding) {
	if len(checkup.Unresponsive) > 0 {
		findings = append(findings, Finding{
			Code: Unresponsive, Severity: Warning, Text: fmt.Sprintf("%s did not respond to node %s at %s peer port, so there is no report of %s", joinNames(checkup.Unresponsive), checkup.From, itsOrTheir(len(checkup.Unresponsive)), itOrThem(len(checkup.Unresponsive))),
			Remedy: "check that the process runs, and that the peer port (--peer, 7947) is open between the nodes",
		})
	}
	return findings
}

// groupNodes groups the nodes by a value of their reports. values are sorted by the number of
// nodes, highest first.
func groupNodes(checkup Checkup, value func(Report) string) (values []string, nodes map[string][]string) {
	nodes = map[string][]string{}
	for _, report := range checkup.Reports {
		if group := value(report); group != "" {
			nodes[group] = append(nodes[group], report.Node)
		}
	}
	values = slices.SortedFunc(maps.Keys(nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(nodes[b]), len(nodes[a])), cmp.Compare(a, b))
	})
	return values, nodes
}

// leaderFindings reports that nodes follow different leaders.
func leaderFindings(checkup Checkup) []Finding {
	values, nodes := groupNodes(checkup, func(report Report) string { return report.Leader })
	if len(values) < 2 {
		return nil
	}
	var texts []string
	for _, leader := range values {
		texts = append(texts, joinNames(nodes[leader])+" "+inflect(len(nodes[leader]), "follows", "follow")+" "+leader)
	}
	return []Finding{{
		Code: LeadersDiffer, Severity: Warning, Text: "the nodes follow different leaders: " + strings.Join(texts, ", "),
		Remedy: "wait for the election to end; otherwise check the network between the peer ports",
	}}
}

// epochFindings reports nodes that do not use a map yet that was committed before the second checkup.
func epochFindings(first, second Checkup) (findings []Finding) {
	var newest uint64
	for _, report := range first.Reports {
		newest = max(newest, report.Epoch)
	}
	for _, report := range second.Reports {
		if report.Epoch < newest {
			findings = append(findings, Finding{
				Code: MapsDiffer, Severity: Warning, Subject: report.Node, Text: fmt.Sprintf("node %s uses the map of epoch %d, although epoch %d was committed at least %v ago", report.Node, report.Epoch, newest, rounded(time.Duration(second.AskedNS-first.AnsweredNS))),
				Remedy: "check its disk and CPU, and the network between it and the leader",
			})
		}
	}
	return findings
}

// portFindings returns a finding for each port that is not reachable from some machine.
func portFindings(checkup Checkup, localUnreachable []UnreachablePort) (findings []Finding) {
	type port struct{ node, port, addr string }
	observers := map[port][]string{} // the nodes that do not reach the port, and "this machine"
	reasons := map[port]string{}     // the reason of the first observer
	add := func(observer string, ports []UnreachablePort) {
		for _, unreachable := range ports {
			unreachablePort := port{unreachable.Node, unreachable.Port, unreachable.Addr}
			observers[unreachablePort] = append(observers[unreachablePort], observer)
			reasons[unreachablePort] = cmp.Or(reasons[unreachablePort], unreachable.Why)
		}
	}
	for _, report := range checkup.Reports {
		add("node "+report.Node, report.UnreachablePorts)
	}
	add("this machine", localUnreachable)
	sorted := slices.SortedFunc(maps.Keys(observers), func(a, b port) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.port, b.port), cmp.Compare(a.addr, b.addr))
	})
	for _, unreachablePort := range sorted {
		finding := Finding{
			Code: Unreachable, Severity: Warning, Subject: unreachablePort.node + unreachablePort.port + unreachablePort.addr,
			Text:   fmt.Sprintf("the %s port of node %s at %s is not reachable from %s: %s", unreachablePort.port, unreachablePort.node, unreachablePort.addr, joinNames(observers[unreachablePort]), reasons[unreachablePort]),
			Remedy: "open the port, or announce another address (--peer-advertise, --gossip-advertise, --endpoint)",
		}
		// A firewall may allow only the nodes to use these ports.
		reachedByAllNodes := slices.Equal(observers[unreachablePort], []string{"this machine"})
		if reachedByAllNodes || unreachablePort.port == "admin" {
			finding.Severity, finding.Remedy = Info, "ignore this if a firewall blocks the port on purpose"
		}
		findings = append(findings, finding)
	}
	return findings
}

// clockDriftFindings compares the clock rates of the nodes with that of the collecting node.
func clockDriftFindings(first, second Checkup) (findings []Finding) {
	// Limits of the time between the two reports of a node, by the clock of the collecting node.
	minElapsed := float64(second.AskedNS - first.AnsweredNS)
	maxElapsed := float64(second.AnsweredNS - first.AskedNS)
	if minElapsed <= 0 {
		return nil
	}
	for _, report := range second.Reports {
		isSameProcess := func(other Report) bool { return other.Node == report.Node && other.Boot == report.Boot }
		i := slices.IndexFunc(first.Reports, isSameProcess)
		if i < 0 || report.Node == second.From {
			continue
		}
		elapsed := float64(report.ClockNS - first.Reports[i].ClockNS)
		// The clock runs at least this much faster, or at least this much slower.
		drift, direction := elapsed/maxElapsed-1, "faster"
		if slower := 1 - elapsed/minElapsed; slower > drift {
			drift, direction = slower, "slower"
		}
		if drift <= maxClockDrift {
			continue
		}
		findings = append(findings, Finding{
			Code: ClockDrift, Severity: Warning, Subject: report.Node,
			Text:   fmt.Sprintf("the clock of node %s runs at least %s %% %s than that of node %s: leases tolerate a difference of 10 %%", report.Node, strconv.FormatFloat(100*drift, 'f', 1, 64), direction, second.From),
			Remedy: "check the clock source and the time service of that machine",
		})
	}
	return findings
}

// versionFindings reports that nodes run different versions.
func versionFindings(checkup Checkup) []Finding {
	values, nodes := groupNodes(checkup, func(report Report) string { return report.Version })
	if len(values) < 2 {
		return nil
	}
	var texts []string
	for _, v := range values {
		texts = append(texts, joinNames(nodes[v])+" "+inflect(len(nodes[v]), "runs", "run")+" "+v)
	}
	return []Finding{{Code: MixedVersions, Severity: Info, Text: "the nodes run different versions: " + strings.Join(texts, ", "), Remedy: "upgrade the remaining nodes one after the other"}}
}

// startFlagFindings reports nodes that were started with other cluster-wide settings than those in force.
func startFlagFindings(checkup Checkup) (findings []Finding) {
	for _, report := range checkup.Reports {
		if report.Timing == "" || report.Flags == report.Timing {
			continue
		}
		findings = append(findings, Finding{
			Code: SettingsDiffer, Severity: Info, Subject: report.Node, Text: fmt.Sprintf("node %s was started with %s, and the cluster uses %s", report.Node, report.Flags, report.Timing),
			Remedy: "change the settings of the cluster with `shardway settings`, or change the flags of the node: the settings of the cluster take precedence",
		})
	}
	return findings
}
