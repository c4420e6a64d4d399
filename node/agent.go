package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/proxy"
	"shardway/shardmap"
)

const (
	// tickEvery is how often the machines are told the time. A jump of more than
	// a quarter lease between two ticks voids the lease.
	tickEvery = 10 * time.Millisecond
	// burstEvery and burstMost let a node that has just met a leader get its
	// lease within a few round trips instead of a few heartbeats.
	burstEvery = 10 * time.Millisecond
	burstMost  = 8
)

// agent runs a node's own side of the protocol in one goroutine: it owns Holder
// and Follower, swaps the routing table, drains, and sends heartbeats.
type agent struct {
	self   shardmap.NodeID
	server string // Raft server id
	nonce  uint64
	pace   ack.Pace
	weight uint32

	clock     clock.Clock
	log       zerolog.Logger
	router    *router
	proxy     *proxy.Server
	term      func() uint64 // the node's Raft term
	deadAfter func() time.Duration
	send      func(ack.Heartbeat)          // towards the leader; does not block
	raise     func(uint64) (uint64, error) // takes a higher boot, durably
	healthy   func() bool
	appKnown  func() bool // false until the app was checked once: till then nothing is said of it
	gateway   bool
	fail      func(error)
	metrics   *metrics
	applied   <-chan struct{} // hint: the log has a newer state
	newest    func() *ack.State
	answers   chan ack.Answer // unbuffered; link gives up with ctx
	wake      chan struct{}   // hint: beat at once
	holder    *ack.Holder
	follower  *ack.Follower

	nextBeat time.Duration
	burst    int
	echoTerm uint64
	reboot   uint64 // a higher boot of this node that the leader knows; zero: none
	inForce  uint64 // the term of the lease in force at the last look; zero: there was none

	leaving atomic.Bool // this node wants to own nothing
	goodbye atomic.Bool // it is to admit and run nothing any more, and to say so
	stays   atomic.Bool // nobody is left to take its shards
	// refused is since when the leader refuses this node's heartbeats because of
	// another process with its id; zero: it does not. elsewhere is that one.
	refused   time.Duration
	elsewhere atomic.Pointer[string]
	answered  atomic.Int64 // when an answer last counted, by the clock
	acked     atomic.Uint64
	current   atomic.Bool // the leader has said that it has the last map proposed: its log is not far behind
	duplicate chan string // cap 1: told once
	overdue   overdue
}

// run returns when ctx ends.
func (a *agent) run(ctx context.Context) {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			a.router.setLease(0)
			return
		case <-t.C:
		case <-a.applied:
		case <-a.router.running.zero:
		case <-a.wake:
			a.nextBeat = 0
		case ans := <-a.answers:
			a.answer(ans)
		}
		a.step()
	}
}

// step looks at everything that may have changed. What a step does, it does in
// the order that keeps G1: lease, then table, then drain, then acknowledge.
func (a *agent) step() {
	now := a.clock.Precise()
	a.holder.Tick(now)
	if a.goodbye.Load() {
		a.holder.Void()
	}
	a.publishLease()
	if s := a.newest(); s != a.follower.State() {
		a.take(now, s)
	}
	if a.holder.CutDue(now) {
		n := a.proxy.CutUpstream("lease lost")
		a.overdue.cutAt(now)
		a.log.Warn().Int("requests", n).Msg("running requests cut: the lease was not renewed")
	}
	_, leased := a.holder.Until()
	a.overdue.look(now, a.deadAfter(), leased, a.router.running)
	a.drain(now)
	a.takeBoot()
	if now >= a.nextBeat && a.reboot == 0 && a.appKnown() {
		a.beat(now)
	}
}

// publishLease lets the request path see the lease. A lease that comes back
// makes a new table, because that is what waiting requests wait for.
func (a *agent) publishLease() {
	until, ok := a.holder.Until()
	if !ok {
		until = 0
	}
	last := a.router.setLease(until)
	was, term := a.inForce, a.holder.Term()
	a.inForce = term
	if ok == (was != 0) {
		// Renewed a moment too late: it was out, though never here.
		// And pause: cluster looks at whose lease it is.
		if ok && max(a.clock.Precise(), a.clock.Now()) >= last || was != term && a.pauses() {
			a.swap(a.follower.State())
		}
		return
	}
	if ok {
		a.log.Info().Msg("lease granted")
		a.swap(a.follower.State())
		return
	}
	a.burst, a.nextBeat = 0, 0 // ask at once: a busy machine looks like a pause
	if !a.goodbye.Load() {
		a.metrics.lapses.Inc()
		a.log.Warn().Msg("lease lapsed")
	}
	if a.pauses() {
		a.swap(a.follower.State())
	}
}

// pauses reports that no request is started without a lease, and whose lease it is
// matters.
func (a *agent) pauses() bool { return a.follower.State().Timing().Pause == ack.PauseCluster }

func (a *agent) swap(s *ack.State) { a.proxy.Wake(a.router.swap(s, a.inForce)) }

// take makes s what the node routes and drains by.
func (a *agent) take(now time.Duration, s *ack.State) {
	old := a.follower.State()
	a.swap(s)
	drain := a.follower.Applied(now, s)
	if s.Committed().Epoch() != old.Committed().Epoch() {
		a.committed(old.Committed(), s)
	}
	if s.TimingSince() != old.TimingSince() {
		a.log.Info().Str("timing", describe(s.Timing())).Uint64("index", s.TimingSince()).Msg("timing in force")
	}
	if s.Last().Epoch() != old.Last().Epoch() && s.Open() {
		a.log.Debug().Uint64("epoch", uint64(s.Last().Epoch())).Bool("drain", drain).Msg("map proposed")
	}
}

// committed logs the new map and drops what this ingress had forwarded to owners
// that were dropped from it: they may never answer (docs/protocol.md, rule 5).
func (a *agent) committed(old *shardmap.Map, s *ack.State) {
	m := s.Committed()
	gained, lost := 0, 0
	for _, mv := range shardmap.Diff(old, m) {
		switch a.self {
		case mv.To:
			gained++
		case mv.From:
			lost++
		}
	}
	a.log.Info().Uint64("epoch", uint64(m.Epoch())).Int("owned", m.Count(a.self)).Int("gained", gained).Int("lost", lost).Msg("map committed")
	a.metrics.reshards.Inc()
	n := a.proxy.Abandon(func(sh shardmap.Shard, node string) bool {
		id := shardmap.NodeID(node)
		return s.Dropped(id) && m.Owner(sh) != id
	})
	if n > 0 {
		a.log.Info().Int("requests", n).Msg("forwarded requests dropped: their owner is gone")
	}
}

// drain acknowledges once nothing runs for a shard that must not run here.
func (a *agent) drain(now time.Duration) {
	e := a.follower.Draining()
	if e == 0 {
		return
	}
	f := a.router.running
	f.draining.Store(true)
	if f.running(a.follower.MayRun) == 0 {
		f.draining.Store(false)
		a.follower.Drained(e)
		a.acked.Store(uint64(e))
		a.nextBeat = 0
		return
	}
	if a.follower.CutDue(now) {
		n := a.proxy.Cut(func(s shardmap.Shard) bool { return !a.follower.MayRun(s) }, "draining")
		a.log.Warn().Uint64("epoch", uint64(e)).Int("requests", n).Msg("running requests cut: their shards move and drain-timeout has passed")
	}
}

// beat sends a heartbeat. The lease that answers it counts from now; the echo is
// read before the Raft term.
func (a *agent) beat(now time.Duration) {
	a.nextBeat = now + a.pace.Heartbeat
	number, echo := a.holder.Beat(now)
	s := a.follower.State()
	hb := ack.Heartbeat{
		Node: a.self, Server: a.server, Boot: a.holder.Boot(), Nonce: a.nonce, Number: number, Echo: echo,
		Term:    a.term(),
		Applied: s.Committed().Epoch(), Acked: a.follower.Acked(), Weight: a.weight,
		Unhealthy: !a.healthy(), Leaving: a.leaving.Load(), Goodbye: a.parted(), Gateway: a.gateway,
	}
	if a.follower.Draining() != 0 {
		hb.Running = uint32(a.router.running.running(a.follower.MayRun))
	}
	a.send(hb)
}

// parted reports that this node may say goodbye: the leader gives its shards to
// others at that word, so it must admit and run nothing any more.
func (a *agent) parted() bool {
	if !a.goodbye.Load() {
		return false
	}
	a.router.running.draining.Store(true)
	if a.router.running.running(func(shardmap.Shard) bool { return false }) > 0 {
		a.proxy.CutUpstream("goodbye")
		a.nextBeat = 0
		return false
	}
	return true
}

// answer takes an answer of the leader.
func (a *agent) answer(ans ack.Answer) {
	now := a.clock.Precise()
	switch {
	case ans.Boot != a.holder.Boot():
		return
	case ans.Refusal == ack.RefusedBoot:
		a.higherBoot(ans.Known)
		return
	case ans.Refusal == ack.RefusedRollback:
		a.fail(&staleError{why: rolledBack(ans)})
		return
	case ans.Refusal == ack.RefusedDuplicate:
		a.refuse(now, ans.Elsewhere)
		return
	}
	if !a.holder.Answered(now, a.term(), ans) {
		return
	}
	a.refused = 0
	a.elsewhere.Store(nil)
	a.answered.Store(int64(now))
	a.stays.Store(ans.MapStays)
	if ans.OK {
		a.current.Store(true)
	}
	if ans.Term != a.echoTerm {
		// A new leader grants nothing before it is shown an answer of its own, and
		// what the old one granted is running out.
		a.echoTerm, a.burst = ans.Term, 0
		a.nextBeat = now
	}
	// Who holds a lease asks on too: it may be of a leader that is gone, and the new
	// one not ready to grant yet.
	if _, held := a.holder.Until(); (!held || ans.Serve <= 0) && !a.gateway && a.burst < burstMost {
		a.burst++
		a.nextBeat = min(a.nextBeat, now+burstEvery)
	}
}

// refuse notes that another process has this node's id. A restart meets this for
// a moment; one that lasts is a mistake of the operator's.
func (a *agent) refuse(now time.Duration, elsewhere string) {
	if elsewhere == "" {
		return
	}
	a.elsewhere.Store(&elsewhere)
	if a.refused == 0 {
		a.refused = now
		a.log.Warn().Str("addr", elsewhere).Msg("heartbeat refused: another process has this node's id")
	}
	if now-a.refused > 2*a.deadAfter() {
		select {
		case a.duplicate <- elsewhere:
		default:
		}
	}
}

// higherBoot begins to take a boot above one of another disk: nothing of the present one may run
// any more when the leader hears of it.
func (a *agent) higherBoot(known uint64) {
	if a.reboot != 0 || known <= a.holder.Boot() {
		return
	}
	a.reboot = known
	a.log.Warn().Uint64("boot", a.holder.Boot()).Uint64("known", known).Msg("a higher boot of this node is known, of another disk: taking the next one")
}

func (a *agent) takeBoot() {
	if a.reboot == 0 {
		return
	}
	a.holder.Void()
	a.publishLease()
	a.router.running.draining.Store(true)
	none := func(shardmap.Shard) bool { return false }
	if a.router.running.running(none) > 0 {
		a.proxy.CutUpstream("new boot")
		return
	}
	boot, err := a.raise(a.reboot)
	if err != nil {
		a.fail(err)
		return
	}
	a.holder.Reboot(boot)
	a.reboot, a.nextBeat = 0, 0
}
