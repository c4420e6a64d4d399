package leader

import (
	"cmp"
	"slices"
	"time"

	"shardway/ack"
)

// FormatUpgrade decides, for one term of one leader, when to raise the level. Every server of the
// latest Raft configuration must have reported in this term that it supports the next level,
// nonvoters and gateways included, and must have supported it for a while. Until then an operator
// can roll a new program back, and afterwards not. So an unreachable server blocks the raise,
// because it may run the old program.
//
// One goroutine owns it. Between Raise and the time that its entry is applied or certainly
// lost, the caller must add no server to the configuration. Before the barrier of its term is
// applied, it must neither add a server nor raise: an entry of an earlier leader may still
// raise the level.
type FormatUpgrade struct {
	term           uint64
	minSupportTime time.Duration
	reports        map[string]FormatReport
	// supportedSince is, for each level above the one in force, since when all servers have
	// supported it.
	supportedSince map[ack.FormatVersion]time.Duration
}

// FormatReport is the report of a process to a leader.
type FormatReport struct {
	// Term is the term of the leader that asked.
	Term   uint64
	Server string
	// Boot and Nonce identify the process: another one may run another program.
	Boot, Nonce uint64
	// MaxVersion is the highest level that it supports.
	MaxVersion ack.FormatVersion
}

// ServerFormat is the level that the program of a server supports, as reported to a leader.
type ServerFormat struct {
	Server string
	// MaxVersion is the highest level that its present process supports; zero means no report to
	// this leader.
	MaxVersion ack.FormatVersion
	// Silent means that it sends no heartbeats.
	Silent bool
	// Blocks means that it prevents the raise to the next level.
	Blocks bool
}

// FormatUpgradeView is the progress towards the next level.
type FormatUpgradeView struct {
	InForce ack.FormatVersion
	// Next is the next level; equal to InForce if no server supports a higher one.
	Next ack.FormatVersion
	// Servers are the servers of the configuration, in order.
	Servers []ServerFormat
	// Wait is the remaining time for which all servers must support it; it runs only while no
	// server blocks.
	Wait time.Duration
}

// NewFormatUpgrade returns the machine of a leader of the given term. It waits for after once all
// servers support a level.
func NewFormatUpgrade(term uint64, after time.Duration) *FormatUpgrade {
	return &FormatUpgrade{term: term, minSupportTime: after, reports: map[string]FormatReport{}, supportedSince: map[ack.FormatVersion]time.Duration{}}
}

// Reported records the report of a server. It ignores a report to an earlier leader. The report
// of a new process restarts the wait.
func (l *FormatUpgrade) Reported(w FormatReport) {
	if w.Term != l.term || l.reports[w.Server] == w {
		return
	}
	l.reports[w.Server] = w
	clear(l.supportedSince)
}

// NeedsReport reports whether the present process of a live server has not reported its level
// yet.
func (l *FormatUpgrade) NeedsReport(server string, heard []MemberView) bool {
	v, ok := serverView(server, heard)
	return ok && !v.mayBeGone() && l.supportedBy(server, v) == 0
}

// Admits reports whether a server that supports levels up to knows may be added to a cluster with
// the level inForce.
func (l *FormatUpgrade) Admits(inForce, knows ack.FormatVersion) bool { return knows >= inForce }

// Update recomputes and returns the progress towards the next level. Its inputs are the level in
// force, the servers of the latest configuration in the log of the leader, and the state of the
// nodes that have sent heartbeats (heard).
func (l *FormatUpgrade) Update(now time.Duration, inForce ack.FormatVersion, servers []string, heard []MemberView) FormatUpgradeView {
	view := FormatUpgradeView{InForce: inForce, Next: inForce, Servers: make([]ServerFormat, 0, len(servers))}
	most := inForce
	for _, server := range servers {
		x := ServerFormat{Server: server, Silent: true}
		if v, ok := serverView(server, heard); ok {
			x.Silent, x.MaxVersion = v.mayBeGone(), l.supportedBy(server, v)
		}
		most = max(most, x.MaxVersion)
		view.Servers = append(view.Servers, x)
	}
	slices.SortFunc(view.Servers, func(a, b ServerFormat) int { return cmp.Compare(a.Server, b.Server) })
	l.trackSupport(now, most, view)
	if most > view.InForce {
		view.Next = view.InForce + 1
		view.Wait = l.minSupportTime
		if since, ok := l.supportedSince[view.Next]; ok {
			view.Wait = max(since+l.minSupportTime-now, 0)
		}
		for i, x := range view.Servers {
			view.Servers[i].Blocks = x.Silent || x.MaxVersion < view.Next
		}
	}
	return view
}

// trackSupport records since when all servers support each level. A short silence of a server does
// not restart the time; a new process does, see Reported.
func (l *FormatUpgrade) trackSupport(now time.Duration, most ack.FormatVersion, view FormatUpgradeView) {
	for level := view.InForce + 1; level <= most; level++ {
		_, known := l.supportedSince[level]
		if !known && !slices.ContainsFunc(view.Servers, func(x ServerFormat) bool { return x.MaxVersion < level }) {
			l.supportedSince[level] = now
		}
	}
}

// Blocked returns the servers that prevent the raise.
func (v FormatUpgradeView) Blocked() []ServerFormat {
	return slices.DeleteFunc(slices.Clone(v.Servers), func(x ServerFormat) bool { return !x.Blocks })
}

// Raise returns the entry that raises the level. It is nil if there is no next level, if a
// server blocks it, or if all servers have not supported it for long enough and atOnce is false.
// The view must be that of the last Update.
func (l *FormatUpgrade) Raise(v FormatUpgradeView, atOnce bool) []byte {
	if v.Next == v.InForce || len(v.Servers) == 0 || len(v.Blocked()) > 0 || v.Wait > 0 && !atOnce {
		return nil
	}
	return ack.EncodeFormatVersion(v.InForce, ack.FormatVersionEntry{Term: l.term, Version: v.Next})
}

// supportedBy returns the level that the process in v reported, zero if it has not.
func (l *FormatUpgrade) supportedBy(server string, v MemberView) ack.FormatVersion {
	w, ok := l.reports[server]
	if !ok || w.Boot != v.Heartbeat.Boot || w.Nonce != v.Heartbeat.Nonce {
		return 0
	}
	return w.MaxVersion
}

// mayBeGone reports whether the process may have ended.
func (v MemberView) mayBeGone() bool { return v.SinceHeartbeat < 0 || v.Silent || v.Crashed }

// serverView returns the view of this server, and not of another disk of its node.
func serverView(server string, heard []MemberView) (MemberView, bool) {
	i := slices.IndexFunc(heard, func(v MemberView) bool { return v.Heartbeat.Server == server })
	if i < 0 {
		return MemberView{}, false
	}
	return heard[i], true
}
