package leader

import (
	"cmp"
	"slices"
	"time"

	"shardway/ack"
)

// FormatUpgrade decides, for one term of one leader, when to raise the format version. Every server
// of the latest Raft configuration must have reported in this term that it supports the next format
// version, nonvoters and gateways included, and must have supported it for a while. Until then an
// operator can roll a new program back, and afterwards not, so an unreachable server blocks the
// raise, because it may run the old program.
//
// One goroutine owns it. Between Raise and the time that its entry is applied or certainly
// lost, the caller must add no server to the configuration. Before the barrier of its term is
// applied, it must neither add a server nor raise: an entry of an earlier leader may still
// raise the format version.
type FormatUpgrade struct {
	term           uint64
	minSupportTime time.Duration
	reports        map[string]FormatReport
	// supportedSince is, for each format version above the one in force, since when all servers
	// have supported it.
	supportedSince map[ack.FormatVersion]time.Duration
}

// FormatReport is the report of a process to a leader.
type FormatReport struct {
	// Term is the term of the leader that asked.
	Term   uint64
	Server string
	// Boot and Nonce identify the process, because a different process may run a different program.
	Boot, Nonce uint64
	// MaxVersion is the highest format version that it supports.
	MaxVersion ack.FormatVersion
}

// ServerFormat is the format version that the program of a server supports, as reported to a
// leader.
type ServerFormat struct {
	Server string
	// MaxVersion is the highest format version that its current process supports, or zero if it has
	// not reported to this leader.
	MaxVersion ack.FormatVersion
	// Silent is set if it sends no heartbeats.
	Silent bool
	// BlocksUpgrade is set if it prevents the raise to the next format version.
	BlocksUpgrade bool
}

// FormatUpgradeView is the progress towards the next format version.
type FormatUpgradeView struct {
	InForce ack.FormatVersion
	// Next is the next format version; equal to InForce if no server supports a higher one.
	Next ack.FormatVersion
	// Servers are the servers of the configuration, in order.
	Servers []ServerFormat
	// RemainingWait is the remaining time for which all servers must support it; it runs only while
	// no server blocks.
	RemainingWait time.Duration
}

// NewFormatUpgrade returns the machine of a leader of the given term. It waits for minSupportTime
// once all servers support a format version.
func NewFormatUpgrade(term uint64, minSupportTime time.Duration) *FormatUpgrade {
	return &FormatUpgrade{term: term, minSupportTime: minSupportTime, reports: map[string]FormatReport{}, supportedSince: map[ack.FormatVersion]time.Duration{}}
}

// RecordReport records the report of a server. It ignores a report to an earlier leader. The report
// of a new process restarts the wait.
func (u *FormatUpgrade) RecordReport(report FormatReport) {
	if report.Term != u.term || u.reports[report.Server] == report {
		return
	}
	u.reports[report.Server] = report
	clear(u.supportedSince)
}

// NeedsReport reports whether the current process of a live server has not reported its format
// version yet.
func (u *FormatUpgrade) NeedsReport(server string, views []MemberView) bool {
	view, ok := serverView(server, views)
	return ok && !view.mayBeGone() && u.supportedBy(server, view) == 0
}

// Admits reports whether a server that supports format versions up to maxVersion may be added to a
// cluster with the format version inForce.
func (u *FormatUpgrade) Admits(inForce, maxVersion ack.FormatVersion) bool {
	return maxVersion >= inForce
}

// Update recomputes and returns the progress towards the next format version. Its inputs are the
// format version in force, the servers of the latest configuration in the log of the leader, and
// the state of the nodes that have sent heartbeats (views).
func (u *FormatUpgrade) Update(now time.Duration, inForce ack.FormatVersion, servers []string, views []MemberView) FormatUpgradeView {
	view := FormatUpgradeView{InForce: inForce, Next: inForce, Servers: u.serverFormats(servers, views)}
	newest := inForce
	for _, server := range view.Servers {
		newest = max(newest, server.MaxVersion)
	}
	u.trackSupport(now, newest, view)
	if newest == inForce {
		return view
	}
	view.Next = inForce + 1
	view.RemainingWait = u.remainingWait(now, view.Next)
	for i, format := range view.Servers {
		view.Servers[i].BlocksUpgrade = format.Silent || format.MaxVersion < view.Next
	}
	return view
}

// serverFormats returns the format versions of the servers, in order.
func (u *FormatUpgrade) serverFormats(servers []string, views []MemberView) []ServerFormat {
	formats := make([]ServerFormat, 0, len(servers))
	for _, server := range servers {
		format := ServerFormat{Server: server, Silent: true}
		if view, ok := serverView(server, views); ok {
			format.Silent, format.MaxVersion = view.mayBeGone(), u.supportedBy(server, view)
		}
		formats = append(formats, format)
	}
	slices.SortFunc(formats, func(a, b ServerFormat) int { return cmp.Compare(a.Server, b.Server) })
	return formats
}

// remainingWait returns how long all servers must still support the format version.
func (u *FormatUpgrade) remainingWait(now time.Duration, version ack.FormatVersion) time.Duration {
	since, ok := u.supportedSince[version]
	if !ok {
		return u.minSupportTime
	}
	return max(since+u.minSupportTime-now, 0)
}

// trackSupport records since when all servers support each format version. A short silence of a
// server does not restart the time. A new process does, see RecordReport.
func (u *FormatUpgrade) trackSupport(now time.Duration, newest ack.FormatVersion, view FormatUpgradeView) {
	for version := view.InForce + 1; version <= newest; version++ {
		lacksSupport := func(server ServerFormat) bool { return server.MaxVersion < version }
		_, isKnown := u.supportedSince[version]
		if !isKnown && !slices.ContainsFunc(view.Servers, lacksSupport) {
			u.supportedSince[version] = now
		}
	}
}

// BlockingServers returns the servers that prevent the raise.
func (fv FormatUpgradeView) BlockingServers() []ServerFormat {
	return slices.DeleteFunc(slices.Clone(fv.Servers), func(server ServerFormat) bool { return !server.BlocksUpgrade })
}

// Raise returns the entry that raises the format version. It is nil if there is no next format
// version, if a server blocks it, or if all servers have not supported it for long enough and
// immediately is false. The view must be that of the last Update.
func (u *FormatUpgrade) Raise(view FormatUpgradeView, immediately bool) []byte {
	if view.Next == view.InForce || len(view.Servers) == 0 || len(view.BlockingServers()) > 0 {
		return nil
	}
	if view.RemainingWait > 0 && !immediately {
		return nil
	}
	return ack.EncodeFormatVersion(view.InForce, ack.FormatVersionEntry{Term: u.term, Version: view.Next})
}

// supportedBy returns the format version that the process in view reported, zero if it has not.
func (u *FormatUpgrade) supportedBy(server string, view MemberView) ack.FormatVersion {
	report, ok := u.reports[server]
	if !ok || report.Boot != view.Heartbeat.Boot || report.Nonce != view.Heartbeat.Nonce {
		return 0
	}
	return report.MaxVersion
}

// mayBeGone reports whether the process may have ended.
func (mv MemberView) mayBeGone() bool { return mv.SinceHeartbeat < 0 || mv.Silent || mv.Crashed }

// serverView returns the view of this server, and not of another disk of its node.
func serverView(server string, views []MemberView) (MemberView, bool) {
	i := slices.IndexFunc(views, func(view MemberView) bool { return view.Heartbeat.Server == server })
	if i < 0 {
		return MemberView{}, false
	}
	return views[i], true
}
