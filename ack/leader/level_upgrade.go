package leader

import (
	"cmp"
	"slices"
	"time"

	"shardway/ack"
)

// Levels decides, for one term of one leader, when to raise the level. Every server of the
// latest Raft configuration must have reported in this term that it supports the next level,
// nonvoters and gateways included, and must have supported it for a while. Until then an operator
// can roll a new program back, and afterwards not. So an unreachable server blocks the raise,
// because it may run the old program.
//
// One goroutine owns it. Between Raise and the time that its entry is applied or certainly
// lost, the caller must add no server to the configuration. Before the barrier of its term is
// applied, it must neither add a server nor raise: an entry of an earlier leader may still
// raise the level.
type Levels struct {
	term    uint64
	after   time.Duration
	reports map[string]LevelReport
	// knownSince is, for each level above the one in force, since when all servers have supported
	// it.
	knownSince map[ack.Level]time.Duration
}

// LevelReport is the report of a process to a leader.
type LevelReport struct {
	// Term is the term of the leader that asked.
	Term   uint64
	Server string
	// Boot and Nonce identify the process: another one may run another program.
	Boot, Nonce uint64
	// Knows is the highest level that it supports.
	Knows ack.Level
}

// ServerLevel is the level that the program of a server supports, as reported to a leader.
type ServerLevel struct {
	Server string
	// Knows is the highest level that its present process supports; zero means no report to this
	// leader.
	Knows ack.Level
	// Silent means that it sends no heartbeats.
	Silent bool
	// Blocks means that it prevents the raise to the next level.
	Blocks bool
}

// LevelView is the progress towards the next level.
type LevelView struct {
	InForce ack.Level
	// Next is the next level; equal to InForce if no server supports a higher one.
	Next ack.Level
	// Servers are the servers of the configuration, in order.
	Servers []ServerLevel
	// Wait is the remaining time for which all servers must support it; it runs only while no
	// server blocks.
	Wait time.Duration
}

// NewLevels returns the machine of a leader of the given term. It waits for after once all
// servers support a level.
func NewLevels(term uint64, after time.Duration) *Levels {
	return &Levels{term: term, after: after, reports: map[string]LevelReport{}, knownSince: map[ack.Level]time.Duration{}}
}

// Reported records the report of a server. It ignores a report to an earlier leader. The report
// of a new process restarts the wait.
func (l *Levels) Reported(w LevelReport) {
	if w.Term != l.term || l.reports[w.Server] == w {
		return
	}
	l.reports[w.Server] = w
	clear(l.knownSince)
}

// NeedsReport reports whether the present process of a live server has not reported its level
// yet.
func (l *Levels) NeedsReport(server string, heard []MemberView) bool {
	v, ok := serverView(server, heard)
	return ok && !v.mayBeGone() && l.knows(server, v) == 0
}

// Admits reports whether a server that supports levels up to knows may be added to a cluster with
// the level inForce.
func (l *Levels) Admits(inForce, knows ack.Level) bool { return knows >= inForce }

// Update recomputes and returns the progress towards the next level. Its inputs are the level in
// force, the servers of the latest configuration in the log of the leader, and the state of the
// nodes that have sent heartbeats (heard).
func (l *Levels) Update(now time.Duration, inForce ack.Level, servers []string, heard []MemberView) LevelView {
	view := LevelView{InForce: inForce, Next: inForce, Servers: make([]ServerLevel, 0, len(servers))}
	most := inForce
	for _, server := range servers {
		x := ServerLevel{Server: server, Silent: true}
		if v, ok := serverView(server, heard); ok {
			x.Silent, x.Knows = v.mayBeGone(), l.knows(server, v)
		}
		most = max(most, x.Knows)
		view.Servers = append(view.Servers, x)
	}
	slices.SortFunc(view.Servers, func(a, b ServerLevel) int { return cmp.Compare(a.Server, b.Server) })
	l.trackKnown(now, most, view)
	if most > view.InForce {
		view.Next = view.InForce + 1
		view.Wait = l.after
		if since, ok := l.knownSince[view.Next]; ok {
			view.Wait = max(since+l.after-now, 0)
		}
		for i, x := range view.Servers {
			view.Servers[i].Blocks = x.Silent || x.Knows < view.Next
		}
	}
	return view
}

// trackKnown records since when all servers support each level. A short silence of a server does
// not restart the time; a new process does, see Reported.
func (l *Levels) trackKnown(now time.Duration, most ack.Level, view LevelView) {
	for level := view.InForce + 1; level <= most; level++ {
		_, known := l.knownSince[level]
		if !known && !slices.ContainsFunc(view.Servers, func(x ServerLevel) bool { return x.Knows < level }) {
			l.knownSince[level] = now
		}
	}
}

// Blocked returns the servers that prevent the raise.
func (v LevelView) Blocked() []ServerLevel {
	return slices.DeleteFunc(slices.Clone(v.Servers), func(x ServerLevel) bool { return !x.Blocks })
}

// Raise returns the entry that raises the level. It is nil if there is no next level, if a
// server blocks it, or if all servers have not supported it for long enough and atOnce is false.
// The view must be that of the last Update.
func (l *Levels) Raise(v LevelView, atOnce bool) []byte {
	if v.Next == v.InForce || len(v.Servers) == 0 || len(v.Blocked()) > 0 || v.Wait > 0 && !atOnce {
		return nil
	}
	return ack.EncodeLevel(v.InForce, ack.LevelEntry{Term: l.term, Level: v.Next})
}

// knows returns the level that the process in v reported, zero if it has not.
func (l *Levels) knows(server string, v MemberView) ack.Level {
	w, ok := l.reports[server]
	if !ok || w.Boot != v.Heartbeat.Boot || w.Nonce != v.Heartbeat.Nonce {
		return 0
	}
	return w.Knows
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
