package ack_test

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/election"
)

// suspicionState is the suspicion of a node, with global knowledge about it.
type suspicionState struct {
	suspicion *election.Suspicion // nil: the voters of this cluster wait for the election timeout of Raft
	// unanswered is when each heartbeat was sent that no answer has come to since, by its number,
	// in true time.
	unanswered map[uint64]time.Duration
	// answeredTerm is the term of the leader whose answer counted last.
	answeredTerm uint64
	// met is the leader to which it has sent a heartbeat at once.
	met int
}

// missedReport is when a voter reported that it misses the leader of a term, in true time.
type missedReport struct {
	term uint64
	at   time.Duration
}

// noticed is the time after a stop within which a process must have detected the stop.
const noticed = 35 * time.Millisecond

// resumeSpread is the maximum time after a stop until the process handles the events that were
// deferred by the stop.
const resumeSpread = 10 * time.Millisecond

// voter is the Raft server of a node, for election.Suspicion.
type voter struct{ p *proc }

func (v voter) Term() uint64     { return v.p.disk.term }
func (v voter) Voters() []string { return v.p.disk.conf.voters }
func (v voter) Leader() string {
	if v.p.follows == nobody {
		return ""
	}
	return v.p.w.hosts[v.p.follows].server()
}

func (v voter) LogEnd() election.LogEnd {
	d := v.p.disk
	return election.LogEnd{Term: d.termAt(d.last()), Index: d.last()}
}

func (p *proc) initSuspicion() {
	if p.w.suspicions {
		p.unanswered = map[uint64]time.Duration{}
		p.met = nobody
		p.suspicion = election.New(election.Options{Server: p.disk.server, Heartbeat: p.w.pace.Heartbeat, Raft: voter{p}}, 0)
	}
}

// pollSuspicion polls the suspicion of the node. If the Raft server is busy writing, it drops the
// campaign without a refusal. The server of package consensus refuses only after MessageTimeout.
func (p *proc) pollSuspicion(now time.Duration) {
	if p.suspicion == nil {
		return
	}
	var of election.UnansweredHeartbeat
	if !p.leader {
		of = p.machine.UnansweredHeartbeat()
	}
	ask, campaign := p.suspicion.Poll(now, of)
	for _, server := range ask {
		p.requestReport(server)
	}
	if campaign {
		p.checkCampaign()
		term := p.disk.term
		p.w.after(p.w.span(0, 8*time.Millisecond), p, func() {
			if p.candidacy == nil && p.disk.term == term { // it has not voted or campaigned since
				p.w.cover.suspicionCampaigns++
				p.startCampaign("the leader is missed", true, p.w.n(2) == 0)
			}
		})
	}
}

// requestReport asks a server whether it misses the leader, too.
func (p *proc) requestReport(server string) {
	w, h := p.w, p.w.byServer(server)
	if h == nil {
		return
	}
	w.cover.suspicions++
	asked := p.clock()
	w.send(p.h, h, func(q *proc) {
		if q.disk.server != server || q.suspicion == nil {
			return
		}
		q.pollSuspicion(q.clock())
		q.suspicion.RecordRequest(q.clock(), p.disk.server)
		q.pollSuspicion(q.clock())
		theirs := q.suspicionReport()
		w.send(h, p.h, func(r *proc) {
			if r == p {
				p.pollSuspicion(p.clock())
				p.suspicion.RecordReport(asked, server, theirs)
				p.pollSuspicion(p.clock())
			}
		})
	})
}

// suspicionReport returns the report of the node, and checks that it misses the leader only if that
// is true.
func (p *proc) suspicionReport() election.Report {
	m, w := p.suspicion.Report(), p.w
	if m.LeaderTerm == 0 {
		return m
	}
	w.missed[p.disk.server] = missedReport{m.LeaderTerm, w.now}
	if p.lateStep {
		return m
	}
	if waits := p.unansweredFor(); waits < w.pace.Heartbeat*7/10 {
		w.fail("suspicion: %s misses the leader of term %d, and has waited for an answer only for %v", p.h.id, m.LeaderTerm, waits)
	}
	if m.LeaderTerm != p.answeredTerm {
		w.fail("suspicion: %s misses the leader of term %d, which never answered it", p.h.id, m.LeaderTerm)
	}
	return m
}

// unansweredFor returns how long the node has waited for an answer that it could have received.
func (p *proc) unansweredFor() time.Duration {
	since := p.w.now
	for _, at := range p.unanswered {
		since = min(since, at)
	}
	// A heartbeat that left just after a stop was created before it: the agent counts from then,
	// and notices only longer stops.
	if stop := p.h.briefStop; since >= stop[1] && since <= stop[1]+resumeSpread {
		since = stop[0]
	}
	return p.w.now - max(since, p.h.resumedAt)
}

// heartbeatSent records a sent heartbeat.
func (p *proc) heartbeatSent(hb ack.Heartbeat) {
	if p.suspicion != nil {
		p.unanswered[hb.Number] = p.w.now
	}
}

// answerCounted records an answer that counted.
func (p *proc) answerCounted(a ack.Answer) {
	p.answeredTerm = a.Term
	for number := range p.unanswered {
		if number <= a.HeartbeatNumber {
			delete(p.unanswered, number)
		}
	}
}

// greetLeader makes the node send a heartbeat at once to a leader that is new to it.
func (p *proc) greetLeader() {
	if p.suspicion != nil && p.met != p.follows && p.follows != nobody {
		p.met = p.follows
		p.machine.HeartbeatNow()
		p.w.after(0, p, p.step)
	}
}

// checkCampaign checks that a majority has recently reported that it misses the leader.
func (p *proc) checkCampaign() {
	w, term, with := p.w, p.suspicion.Report().LeaderTerm, 1
	lately := w.pace.Heartbeat * 11 / 10
	for _, server := range p.disk.conf.voters {
		if said := w.missed[server]; server != p.disk.server && said.term == term && w.now-said.at <= lately {
			with++
		}
	}
	if 2*with <= len(p.disk.conf.voters) {
		w.fail("suspicion: %s campaigns against the leader of term %d, and only %d of %d voters miss it", p.h.id, term, with, len(p.disk.conf.voters))
	}
}

const (
	// maxElectionTime is how long it takes, at most, from when a leader stops until another
	// one is elected, if all is well but for that: a heartbeat until the next one of the
	// last voter that is needed, what that waits, and what the election takes.
	maxElectionTime = 250 * time.Millisecond
	// hangs is how long a leader stops then.
	hangs = 600 * time.Millisecond
)

// faultLeaderHangs stops the leader of a healthy cluster, or partitions it in one or both
// directions. No other node may lose its lease.
func faultLeaderHangs(w *world) bool {
	w.stable = -1 // earlier problems were not checked
	if !w.run(w.now+10*time.Second, func() bool { return w.settled(400 * time.Millisecond) }) || w.failure != "" {
		return false
	}
	l := w.randomHost(func(h *host) bool { return running(h) && h.proc.leader && leads(h) })
	if l == nil || !w.canLoseLeader(l) {
		return false
	}
	w.run(w.now+w.span(0, 110*time.Millisecond), nil)
	if !running(l) || !l.proc.leader || !w.canLoseLeader(l) {
		return false
	}
	w.delayEntries(l)
	term, before := l.proc.disk.term, w.cover.elections
	w.hung = l
	how := w.pick(4)
	w.logf("scene: %s, which leads, %s", l.id, [...]string{"stops", "is partitioned", "cannot send", "cannot receive"}[how])
	if how == 0 {
		l.stop(hangs, "as it leads")
	} else {
		w.partitionLeader(l, how)
	}
	began := w.now
	w.run(w.now+maxElectionTime, func() bool { return w.cover.elections > before })
	switch {
	case w.cover.elections > before:
	case w.campaigns[term+1] > 1:
		// Two that came to miss it within a round trip had both a majority, and neither its
		// votes: Raft's own timeout decides, and leases end.
		w.cover.splits++
		w.hung = nil
	default:
		w.fail("suspicion: the leader of term %d has hung for %v, and no other leader was elected", term, w.now-began)
	}
	w.run(began+hangs, nil)
	w.hung = nil
	for i := range w.hosts {
		w.noLog[l.i][i] = false
	}
	w.cover.hangs++
	return true
}

// partitionLeader partitions a leader for as long as it hangs.
func (w *world) partitionLeader(l *host, how int) {
	set := func(on bool) {
		for i := range w.hosts {
			if i == l.i {
				continue
			}
			w.link[l.i][i] = on || how == 3
			w.link[i][l.i] = on || how == 2
		}
	}
	set(false)
	w.after(hangs, nil, func() { set(true) })
}

// delayEntries withholds an entry from some voters, few enough that the others can elect a leader.
// These voters cannot be elected.
func (w *world) delayEntries(l *host) {
	if w.pick(2) == 0 {
		return
	}
	var behind []*host
	for _, h := range w.hosts {
		if h != l && l.proc.disk.conf.votes(h.server()) && w.pick(2) == 0 {
			behind = append(behind, h)
		}
	}
	if 2*(len(behind)+1) > len(l.proc.disk.conf.voters) {
		return
	}
	for _, h := range behind {
		w.noLog[l.i][h.i] = true
	}
	l.proc.appendEntry(&logEntry{})
	w.run(w.now+10*time.Millisecond, nil)
}

// canLoseLeader reports whether the cluster can lose this leader without loss: it has at least
// three voters, and everything works.
func (w *world) canLoseLeader(l *host) bool {
	c := l.proc.disk.conf
	if len(c.voters) < 3 || w.loss+w.dup+w.slow > 0 {
		return false
	}
	for _, h := range w.hosts {
		switch {
		case h.absent:
		case !running(h), h.pauseAt != pauseNowhere, h.unhealthy, h.holdLog, h.holdAt, h.deaf, h.mute, h.proc.leaving, h.proc.follows != l.i, h.proc.answeredTerm != l.proc.disk.term, h.hasFaultyDisk(), h.leaseIsOld():
			return false
		}
		for j := range w.hosts {
			if !w.link[h.i][j] || w.noLog[h.i][j] || w.stalled[h.i][j] > w.now {
				return false
			}
		}
	}
	return !slices.ContainsFunc(c.voters, func(s string) bool { return w.byServer(s) == nil })
}

// leaseIsOld reports whether the lease of the host was not renewed recently.
func (h *host) leaseIsOld() bool {
	p := h.proc
	return p.unansweredFor() > 20*time.Millisecond || !h.gateway && p.until-p.clock() < h.w.truth.Timing().Lease/2
}

// checkLapse fails if a lease ends while only the leader hangs: confirmed leases last until the next
// leader grants new ones.
func (w *world) checkLapse(p *proc) {
	l := w.hung
	if l == nil || l == p.h || p.h.gateway {
		return
	}
	w.fail("suspicion: the lease of %s has ended because %s hangs", p.h.id, l.id)
}

// faultDoze stops all processes for a while at once, like a suspended machine.
func faultDoze(w *world) bool {
	d := w.span(50*time.Millisecond, 400*time.Millisecond)
	for _, h := range w.hosts {
		if w.pick(8) > 0 {
			h.stop(d, "with all other processes")
		}
	}
	w.run(w.now+d+100*time.Millisecond, nil)
	return true
}
