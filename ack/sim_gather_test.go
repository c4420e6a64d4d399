package ack_test

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// The causes that a leader may delay: the first map waits for the founding nodes, causes that only
// add nodes are delayed, and a loss is not.

const (
	// firstMapWait is how long the first map waits for them.
	firstMapWait = 2 * time.Second
	// lossWait is the maximum time until a leader proposes a map without a lost node. The ticks
	// are 10 to 40 ms apart here.
	lossWait = 150 * time.Millisecond
)

// waits is what a leadership has been observed to wait for.
type waits struct {
	expect    int           // how many nodes found the cluster together, gateways included
	barrier   bool          // applied
	base      *ack.State    // when an entry was submitted whose fate is open; nil: none is
	commit    bool          // that entry is a commit
	lostSince time.Duration // since when a member of the last map is lost; negative: none is
	lastTick  time.Duration
	notBefore time.Duration // nothing is judged before: the leader itself waits for something
}

// founders returns the number of nodes that form the cluster, gateways included.
func (w *world) founders() int {
	n := 0
	for _, h := range w.hosts {
		if !h.absent {
			n++
		}
	}
	return n
}

// checkMessage records a message to a leader.
func (l *leaderLoop) checkMessage(m leader.Message) {
	l.endAnswers()
	switch m := m.(type) {
	case leader.HeartbeatReceived:
		if m.Unhealthy {
			l.sampleApps()
		}
	case leader.BarrierApplied:
		l.waits.barrier = true
	case leader.SubmitFailed:
		l.waits.base = nil
		l.delayLossCheck(2 * l.p.w.pace.Heartbeat)
	case leader.Tick:
		l.judgeLoss()
		l.judgeHeldBack()
		if l.p.w.reaches {
			l.judgeReach()
		}
	}
}

// checkSubmit checks the first map: with fewer nodes than expected, it is proposed only after
// the wait.
func (l *leaderLoop) checkSubmit(e leader.Submit) {
	told, w := l.driverState(), l.p.w
	l.waits.base, l.waits.commit = told, e.Commit
	if e.Commit || told.Proposed().Epoch() > 0 {
		return
	}
	next, outcome, err := told.Apply(told.Index()+1, l.term, e.Entry)
	if err != nil {
		w.fail("first map: %v", err)
		return
	}
	if outcome == ack.OutcomeAppsReported {
		return // reports of nodes about their apps come first
	}
	if createsList := !told.HasServices() && next.HasServices(); createsList {
		return // so does the list of services
	}
	want := l.waits.expect
	for _, h := range w.hosts {
		if h.gateway || h.leaves() || l.left[h.id] { // as far as this leader knows
			want--
		}
	}
	if have := len(next.Proposed().Members()); have < want && l.p.clock()-l.turn.StartedAt() < firstMapWait {
		w.fail("first map: it has %d of %d nodes, %v after the election", have, want, l.p.clock()-l.turn.StartedAt())
	}
}

// leaves reports whether the process of the host wants no shards.
func (h *host) leaves() bool { return h.proc != nil && h.proc.leaving }

// delayLossCheck excludes some time from the check of losses.
func (l *leaderLoop) delayLossCheck(d time.Duration) {
	l.waits.lostSince, l.waits.notBefore = -1, l.p.clock()+d
}

// judgeLoss checks that a map without failed nodes is proposed at once.
func (l *leaderLoop) judgeLoss() {
	x, p := &l.waits, l.p
	now := p.clock()
	stalled := now-x.lastTick > 60*time.Millisecond
	x.lastTick = now
	if s := l.driverState(); x.base != nil && (s.Committed() != x.base.Committed() || !x.commit && s.Proposed() != x.base.Proposed()) {
		x.base = nil
	}
	l.judgeStage(now, stalled)
	lost, ok := l.lostMember()
	switch {
	case !ok || !x.barrier || x.base != nil || now < x.notBefore || p.disk.term != l.term:
		x.lostSince = -1
	case x.lostSince < 0 || stalled:
		x.lostSince = now
	case now-x.lostSince > lossWait:
		p.w.fail("batching: %s takes %s for lost since %v and proposes nothing", p.h.id, lost, now-x.lostSince)
	}
}

// lostMember returns a member of the last map that the leader considers failed or leaving,
// while another node can own its shards.
func (l *leaderLoop) lostMember() (id shardmap.NodeID, ok bool) {
	if l.driverState().Proposed().Epoch() == 0 {
		return "", false
	}
	somebody, staged := false, map[shardmap.NodeID]bool{}
	for _, v := range l.turn.View() {
		staged[v.Node] = v.DefersMoves
		somebody = somebody || v.Eligible && !l.driverState().Policy().IsDraining(v.Node)
	}
	id = l.losingNode()
	return id, id != "" && somebody && !staged[id]
}

// moving reports whether shards are moving.
func (l *leaderLoop) moving() bool {
	s := l.driverState()
	return s.HasOpenProposal() && len(shardmap.Diff(s.Committed(), s.Proposed())) > 0
}

// keepsItsShards reports whether a safe drain leaves all shards that the node owns at the node. Such
// a node remains a member.
func (l *leaderLoop) keepsItsShards(v leader.MemberView) bool {
	s := l.driverState()
	if !s.Policy().DrainOptions[v.Node].Safe || v.Silent || v.Crashed || v.Heartbeat.Unhealthy || v.Heartbeat.Leaving || v.Heartbeat.Goodbye {
		return false
	}
	last := s.Proposed()
	for shard := range shardmap.Shard(last.Len()) {
		if last.Owner(shard) == v.Node && !v.Heartbeat.KeepsAllShards && !slices.Contains(v.Heartbeat.KeptShards, shard) {
			return false
		}
	}
	return true
}

// losingNode returns a member of the last map that should not be one any more; empty if there
// is none.
func (l *leaderLoop) losingNode() (id shardmap.NodeID) {
	last := l.driverState().Proposed()
	for _, v := range l.turn.View() {
		if !v.Eligible && !v.Restarting && last.IsMember(v.Node) && !l.keepsItsShards(v) {
			id = v.Node
		}
	}
	if few := l.unhealthyFew(); id == "" {
		id = few
	}
	return id
}
