package ack

import (
	"cmp"
	"slices"
	"time"
)

// Levels decides, for one term of one leader, when the next level is put into force:
// once every server of the latest Raft configuration, those without a vote and the
// gateways included, has told this leader in this term that it knows it, and has
// known it for a while. Until then whoever rolled a new program out can roll it
// back; afterwards nobody can. So a server that is not heard holds it up: its
// program may be the old one.
//
// One goroutine owns it. Between Raise and the moment that the entry is applied or
// certainly is not in the log it must add no server to the configuration, and before
// the barrier of its term is applied it must neither add one nor raise: what earlier
// leaders have put in line may raise the level yet.
type Levels struct {
	term    uint64
	after   time.Duration
	reports map[string]LevelReport
	// since is, for each level above the one in force, since when all servers have
	// been known to know it.
	knownSince map[Level]time.Duration
}

// Word is what the process of a server told a leader.
type LevelReport struct {
	// Term is that of the leader that asked.
	Term   uint64
	Server string
	// Boot and Nonce name the process: another one may be of another program.
	Boot, Nonce uint64
	// Knows is the highest level that it knows.
	Knows Level
}

// ServerLevel is what a leader knows of a server's program.
type ServerLevel struct {
	Server string
	// Knows is the highest level that its present process knows, zero: it has not told
	// this leader.
	Knows Level
	// Silent means that it is not heard.
	Silent bool
	// Blocks means that the next level cannot be raised because of it.
	Blocks bool
}

// LevelView is what stands between the level in force and the next one.
type LevelView struct {
	InForce Level
	// Next is the one that will be raised next; the same as InForce: no server knows a
	// higher one.
	Next Level
	// Servers are those of the configuration, ordered.
	Servers []ServerLevel
	// Wait is for how much longer all must know it; it runs only while nobody blocks.
	Wait time.Duration
}

// NewLevels returns the machine of a leader of the given term, which waits for after
// once all know a level.
func NewLevels(term uint64, after time.Duration) *Levels {
	return &Levels{term: term, after: after, reports: map[string]LevelReport{}, knownSince: map[Level]time.Duration{}}
}

// Told takes what a server said. What an earlier leader was told is no word. With a
// process that is new here the time begins anew that all must know a level.
func (l *Levels) Reported(w LevelReport) {
	if w.Term != l.term || l.reports[w.Server] == w {
		return
	}
	l.reports[w.Server] = w
	clear(l.knownSince)
}

// Asks reports whether the present process of a server that is heard has still to be
// asked what it knows.
func (l *Levels) NeedsReport(server string, heard []MemberView) bool {
	v, ok := serverView(server, heard)
	return ok && !v.mayBeGone() && l.knows(server, v) == 0
}

// Admits reports whether a server that knows a level may be added to the
// configuration of a cluster in which another one is in force.
func (l *Levels) Admits(inForce, knows Level) bool { return knows >= inForce }

// Look looks at everything that may have changed: the level in force, the servers of
// the latest configuration in the leader's log, and what it has heard of the nodes.
func (l *Levels) Update(now time.Duration, inForce Level, servers []string, heard []MemberView) LevelView {
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

// time notes since when all know each level up to the highest that one knows. That
// somebody is not heard for a moment does not begin it anew, another process does: see
// Told.
func (l *Levels) trackKnown(now time.Duration, most Level, view LevelView) {
	for level := view.InForce + 1; level <= most; level++ {
		_, known := l.knownSince[level]
		if !known && !slices.ContainsFunc(view.Servers, func(x ServerLevel) bool { return x.Knows < level }) {
			l.knownSince[level] = now
		}
	}
}

// Blocked returns the servers because of which the next level cannot be raised.
func (v LevelView) Blocked() []ServerLevel {
	return slices.DeleteFunc(slices.Clone(v.Servers), func(x ServerLevel) bool { return !x.Blocks })
}

// Raise returns the entry that puts the next level into force, nil if that may not be
// yet: there is none, somebody blocks it, or, unless it is to be at once, all have not
// known it for long enough. The view must be of the last Look.
func (l *Levels) Raise(v LevelView, atOnce bool) []byte {
	if v.Next == v.InForce || len(v.Servers) == 0 || len(v.Blocked()) > 0 || v.Wait > 0 && !atOnce {
		return nil
	}
	return encodeLevel(v.InForce, levelEntry{term: l.term, level: v.Next})
}

// knows returns what the process that is heard under v told, zero if it did not.
func (l *Levels) knows(server string, v MemberView) Level {
	w, ok := l.reports[server]
	if !ok || w.Boot != v.Heartbeat.Boot || w.Nonce != v.Heartbeat.Nonce {
		return 0
	}
	return w.Knows
}

// silent reports that a process may not be there any more.
func (v MemberView) mayBeGone() bool { return v.SinceHeartbeat < 0 || v.Silent || v.Crashed }

// serverView returns what is known of the very server, not of another disk of its node.
func serverView(server string, heard []MemberView) (MemberView, bool) {
	i := slices.IndexFunc(heard, func(v MemberView) bool { return v.Heartbeat.Server == server })
	if i < 0 {
		return MemberView{}, false
	}
	return heard[i], true
}
