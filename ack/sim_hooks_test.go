package ack_test

import (
	"errors"
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/shardmap"
)

// simApp is the app of a host, in a process of its own, which can outlive the process of the
// node and end before it. It keeps the shards that it acquired, and handles calls as
// docs/internals/protocol-state.md requires of apps.
type simApp struct {
	h    *host
	life int // how often it has restarted
	down time.Duration
	held map[shardmap.Shard]shardmap.Epoch
	seen map[shardmap.Shard]uint64 // the highest seq that named the shard
	left map[shardEpoch][]byte     // its releases, and where the state is
	// disks has those that its calls came from; the last one counts.
	disks []string

	ill appIllness
}

// appIllness are probabilities per thousand: calls that are slow, hang, fail with 500, succeed
// but return 500, and calls with failing shards.
type appIllness struct{ slow, hangs, fails, lies, some int }

func newApp(h *host) *simApp {
	return &simApp{h: h, held: map[shardmap.Shard]shardmap.Epoch{}, seen: map[shardmap.Shard]uint64{}, left: map[shardEpoch][]byte{}}
}

// simCall is a call on its way to the app, or in it.
type simCall struct {
	agent.HookCall
	p     *proc
	disk  string
	life  int  // of the app that it came to
	begun bool // the app has begun it
	cut   bool
	slow  bool // and it takes its time
	ended bool // its result was reported
	late  bool // the process was stopped between its decision and this call
	// forged: a forged refusal took its shards, outside the guarantee.
	forged bool
}

// appSide is the connection of a process to its app.
type appSide struct {
	calls map[uint64]*simCall
	// got are the shards that the app has acquired, as far as this process knows.
	got map[shardmap.Shard]gotShard
	// owed are the shards whose app was told to acquire and has not been told of their
	// end since: under which epoch.
	owed map[shardmap.Shard]shardmap.Epoch
	// drains is the proposal that the node drains for, since when, by its clock.
	drains      shardmap.Epoch
	drainsSince time.Duration
	drainsLimit time.Duration // the release timeout at that time
	// released are the shards that the app has released and not been told to acquire since,
	// everGot what it has acquired: under which epoch.
	released map[shardmap.Shard]shardmap.Epoch
	everGot  map[shardEpoch]bool
	// succeeded are acquires that count if a look finds the shards at their place: the next
	// one, or that at which the lease comes back.
	succeeded []shardEpoch
	// firstLease is the last proposal that was known when this boot got its first lease.
	firstLease shardmap.Epoch
	leased     bool // it has got it
	// pendingFor is the proposal for which shards are given up, until the leader takes that.
	pendingFor   shardmap.Epoch
	pending      *ack.Releases
	parted       bool // a goodbye says it, for the second time
	pendingSince time.Duration
	slowCutUntil time.Duration // end of the last call whose cancellation took long
	pendingLimit time.Duration // the release timeout at that time
	sent         int           // how often it was sent
	// servedSince is since when a shard is served that heartbeats report as not acquired.
	servedSince map[shardEpoch]time.Duration
	// lateStep: the process was stopped after the clock of this look was read.
	lateStep bool
}

type gotShard struct {
	epoch shardmap.Epoch
	life  int
}

// hookOptions returns how the process reaches its app; nil if the app uses no hooks.
func (p *proc) hookOptions() *agent.HookOptions {
	if p.h.app == nil {
		return nil
	}
	p.appSide = appSide{calls: map[uint64]*simCall{}, got: map[shardmap.Shard]gotShard{}, owed: map[shardmap.Shard]shardmap.Epoch{}, released: map[shardmap.Shard]shardmap.Epoch{}, everGot: map[shardEpoch]bool{}, servedSince: map[shardEpoch]time.Duration{}}
	return &agent.HookOptions{
		App: p, SendReleases: p.Deliver, ReleaseTimeout: p.w.releaseTimeout, AcquireTimeout: p.w.acquireTimeout,
		ReleaseEnded: p.releaseEnded, StuckAfter: p.w.stuckAfter, Backoff: p.w.backoff,
	}
}

var errApp = errors.New("the app refused")

// CountRequests counts what runs for a shard.
func (p *proc) CountRequests(s shardmap.Shard) int {
	n := 0
	for _, r := range p.reqs {
		if r.shard == s {
			n++
		}
	}
	p.awaited = p.awaited || n > 0
	return n
}

// StartCall sends a call.
func (p *proc) StartCall(hc agent.HookCall) {
	w := p.w
	c := &simCall{HookCall: hc, p: p, disk: p.disk.server, late: p.lateStep, forged: w.now < p.forgedUntil}
	w.checkCall(p, c)
	p.calls[hc.Seq] = c
	w.cover.calls[hc.Kind.String()]++
	w.logf("%s calls %s, seq %d: %v", p.h.id, hc.Kind, hc.Seq&0xffff, hc.Shards)
	for _, hs := range hc.Shards {
		if hc.Kind == agent.HookAcquire {
			p.owed[hs.Shard] = hs.Epoch
			delete(p.released, hs.Shard)
			continue
		}
		delete(p.got, hs.Shard)
		delete(p.owed, hs.Shard)
	}
	w.after(w.span(0, time.Millisecond), nil, func() { p.h.appOf(hc.Instance).arrive(c) })
	w.after(hc.Timeout, p, func() { p.reportResult(c, agent.HookResult{Err: errors.New("no answer in time")}) })
}

// CancelCall closes the connection of a call.
func (p *proc) CancelCall(seq uint64) {
	c := p.calls[seq]
	if c == nil || c.cut {
		return
	}
	c.cut = true
	p.w.cover.cutCalls++
	d := p.w.span(0, 3*time.Millisecond)
	if p.h.slowCut {
		d = p.w.span(100*time.Millisecond, time.Second)
		p.slowCutUntil = p.w.now + d
	}
	c.slow = p.h.slowCut
	p.w.after(d, p, func() { p.reportResult(c, agent.HookResult{Err: errors.New("cut")}) })
}

// reportResult reports the result of a call to the agent, once.
func (p *proc) reportResult(c *simCall, r agent.HookResult) {
	if c.ended || p.dead {
		return
	}
	c.ended = true
	delete(p.calls, c.Seq)
	r.Seq = c.Seq
	// What is gone has nothing to forget; what ended slowly may have taken all the time that
	// there was to tell the app.
	if r.Refused || c.slow {
		for _, hs := range c.Shards {
			delete(p.owed, hs.Shard)
		}
	}
	if c.Kind == agent.HookAcquire && r.Err == nil {
		for _, hs := range c.Shards {
			if _, failed := r.Failed[hs.Shard]; !failed {
				p.got[hs.Shard] = gotShard{hs.Epoch, c.life}
				p.succeeded = append(p.succeeded, shardEpoch{hs.Shard, hs.Epoch})
			}
		}
	}
	if c.Kind == agent.HookRelease && r.Err == nil {
		for _, hs := range c.Shards {
			if _, failed := r.Failed[hs.Shard]; !failed && !r.Absent[hs.Shard] {
				p.released[hs.Shard] = hs.Epoch
			}
		}
	}
	p.machine.HookEnded(r)
	p.step()
}

// arrive handles a call that has reached the app, in any state of its node.
func (a *simApp) arrive(c *simCall) {
	w := a.h.w
	if w.now < a.down {
		w.cover.refusedCalls++
		a.answer(c, agent.HookResult{Err: errApp, Refused: true})
		return
	}
	c.life, c.begun = a.life, true
	w.checkBegun(c)
	if w.perMille(a.ill.fails) {
		a.answer(c, agent.HookResult{Err: errApp})
		return
	}
	d := w.span(0, 2*time.Millisecond)
	switch {
	case w.perMille(a.ill.hangs):
		w.cover.hungCalls++
		d = 1000 * time.Hour
		if w.n(2) == 0 {
			d = w.span(500*time.Millisecond, 5*time.Second) // it does it all the same
		}
	case w.perMille(a.ill.slow):
		d = w.span(10*time.Millisecond, time.Second)
	}
	w.after(d, nil, func() { a.perform(c) })
}

// perform is the time at which the app has performed the call and responds.
func (a *simApp) perform(c *simCall) {
	w := a.h.w
	if a.life != c.life {
		a.answer(c, agent.HookResult{Err: errApp})
		return
	}
	r := agent.HookResult{Failed: map[shardmap.Shard]string{}, Notes: map[shardmap.Shard][]byte{}, Absent: map[shardmap.Shard]bool{}}
	if a.replaced(c.disk) && w.plant != plantAppKeepsNoSeq {
		r.Err = errApp
	}
	for _, hs := range c.Shards {
		switch {
		case r.Err != nil || a.seen[hs.Shard] > c.Seq && w.plant != plantAppKeepsNoSeq:
			w.cover.staleCalls++
			r.Failed[hs.Shard] = "a later call has come"
		case w.perMille(a.ill.some):
			r.Failed[hs.Shard] = "just so"
		default:
			a.doShard(c, hs, &r)
		}
	}
	if w.perMille(a.ill.lies) {
		r.Err = errApp
	}
	a.answer(c, r)
}

func (a *simApp) doShard(c *simCall, hs agent.HookShard, r *agent.HookResult) {
	a.seen[hs.Shard] = c.Seq
	a.h.w.checkDone(c, hs)
	switch c.Kind {
	case agent.HookRelease:
		a.release(hs, r)
	case agent.HookAcquire:
		if !hs.Again && a.held[hs.Shard] == hs.Epoch {
			a.h.w.fail("hooks: the app of %s gets an acquire call for shard %d under %d without Again, and holds it", a.h.id, hs.Shard, hs.Epoch)
		}
		a.held[hs.Shard] = hs.Epoch
		delete(a.left, shardEpoch{hs.Shard, hs.Epoch})
	case agent.HookLost:
		if a.held[hs.Shard] == hs.Epoch {
			delete(a.held, hs.Shard)
		}
	}
}

// release writes a shard back and returns where. It is idempotent. A shard that the app does
// not hold cannot be released.
func (a *simApp) release(hs agent.HookShard, r *agent.HookResult) {
	w, o := a.h.w, shardEpoch{hs.Shard, hs.Epoch}
	if a.held[hs.Shard] == hs.Epoch {
		delete(a.held, hs.Shard)
		a.left[o] = w.note(hs.Shard)
		if hs.Epoch >= max(w.begun[hs.Shard], w.changed[hs.Shard]) {
			w.final[hs.Shard] = w.changes[hs.Shard]
		}
	}
	note, ok := a.left[o]
	if !ok {
		w.cover.absentShards++
		r.Absent[hs.Shard] = true
		return
	}
	if note != nil {
		r.Notes[hs.Shard] = note
	}
}

// replaced records which disk sends the calls: another disk counts again, and replaced disks
// no longer count.
func (a *simApp) replaced(disk string) bool {
	i := slices.Index(a.disks, disk)
	if i < 0 {
		a.disks = append(a.disks, disk)
		clear(a.seen)
		return false
	}
	return i < len(a.disks)-1
}

func (a *simApp) answer(c *simCall, r agent.HookResult) {
	w := a.h.w
	w.after(w.span(0, time.Millisecond), c.p, func() {
		if !c.cut {
			c.p.reportResult(c, r)
		}
	})
}

// restart ends the app and starts it again after a while, without its state.
func (a *simApp) restart(down time.Duration) {
	a.life++
	a.down = a.h.w.now + down
	clear(a.held)
	clear(a.seen)
	clear(a.left)
}

func faultAppRestart(w *world) bool {
	h := w.randomHost(func(h *host) bool { return h.app != nil })
	if h == nil {
		return false
	}
	d := time.Duration(0)
	if w.pick(3) > 0 {
		d = w.faultDuration() / 2
	}
	w.logf("the app of %s restarts, and is gone for %v", h.id, d.Round(time.Millisecond))
	w.cover.appRestarts++
	h.appOf(w.pickInstance(h)).restart(d)
	return true
}

func faultAppIll(w *world) bool {
	h := w.randomHost(func(h *host) bool { return h.app != nil })
	if h == nil {
		return false
	}
	often := [...]int{0, 100, 300, 900}
	app := h.appOf(w.pickInstance(h))
	app.ill = appIllness{often[w.pick(4)], often[w.pick(4)], often[w.pick(3)], often[w.pick(3)], often[w.pick(3)]}
	w.logf("the app of %s is ill: %+v", h.id, app.ill)
	w.undo(w.faultDuration(), func() { app.ill = appIllness{} })
	return app.ill != appIllness{}
}

// faultSafeDrain makes an app fail to release shards, and requests a safe drain of its node. Otherwise, both
// rarely occur at the same node and time.
func faultSafeDrain(w *world) bool {
	lead := w.someLeader()
	h := w.randomHost(func(h *host) bool { return h.app != nil && running(h) && h.proc.table.Committed().ShardCount(h.id) > 0 })
	if lead == nil || h == nil {
		return false
	}
	for _, app := range h.apps() {
		app.ill = []appIllness{{fails: 1000}, {hangs: 1000}, {some: 900}}[w.pick(3)]
		w.undo(w.faultDuration(), func() { app.ill = appIllness{} })
	}
	w.logf("scene: a safe drain of %s, whose app fails to release", h.id)
	return lead.proc.lead.changePolicy(ack.Change{Kind: ack.ChangeDrain, Node: h.id, SafeDrain: true, ReleaseTimeout: time.Duration(w.pick(2)) * 500 * time.Millisecond})
}

// addHookApps gives most hosts an app with hooks.
func (w *world) addHookApps() {
	w.releaseTimeout = w.span(200*time.Millisecond, 2500*time.Millisecond)
	w.acquireTimeout = w.span(300*time.Millisecond, 3*time.Second)
	w.stuckAfter, w.backoff = w.span(200*time.Millisecond, 2*time.Second), w.span(300*time.Millisecond, 3*time.Second)
	for _, h := range w.hosts {
		if !h.gateway && w.n(6) > 0 {
			h.app = newApp(h)
			for range h.instanceCount() - 1 {
				h.furtherApps = append(h.furtherApps, newApp(h))
			}
		}
	}
}

// sortedCalls returns the running calls, oldest first.
func (p *proc) sortedCalls() []*simCall {
	var out []*simCall
	for _, seq := range slices.Sorted(maps.Keys(p.calls)) {
		out = append(out, p.calls[seq])
	}
	return out
}

// faultAppHangs makes an app without state hang in its calls while its node is partitioned,
// for longer than the node keeps its shards.
func faultAppHangs(w *world) bool {
	h := w.randomHost(func(h *host) bool { return h.app != nil && running(h) })
	if h == nil {
		return false
	}
	w.logf("scene: the app of %s hangs, and then it is cut off", h.id)
	h.app.restart(0)
	h.app.ill = appIllness{hangs: 1000}
	w.undo(3*w.deadAfter(), func() { h.app.ill = appIllness{} })
	w.run(w.now+w.span(50*time.Millisecond, 400*time.Millisecond), nil)
	return w.cutLinks(func(i, j int) bool { return i == h.i || j == h.i })
}
