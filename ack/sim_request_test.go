package ack_test

import (
	"time"

	"shardway/shardmap"
)

// simReq is a request on its way to the app of the node that admitted it.
type simReq struct {
	shard shardmap.Shard
	epoch shardmap.Epoch
	// instance is the app instance that gets it.
	instance shardmap.Instance
	keys     string // by which its key was found
	running  bool   // its first byte went to the app
	cut      bool   // the node has cut it; it does not run any more
	forged   bool   // a forged refusal took its shard: outside the guarantee
	// late: the process was stopped between the second check and the first
	// byte; only the epoch fences that.
	late bool
}

// arrivals sends requests to the node.
func (p *proc) arrivals() {
	w := p.w
	w.refuses(string(p.h.id), p.fsm)
	for range 2 {
		p.admit(shardmap.Shard(w.n(w.shards)))
	}
	w.after(w.span(10*time.Millisecond, 70*time.Millisecond), p, p.arrivals)
}

// admit is Admit of package node: count first, then check routing and lease.
func (p *proc) admit(s shardmap.Shard) {
	epoch, ok := p.owns(s)
	if !ok || p.clock() >= p.until {
		return
	}
	w := p.w
	r := &simReq{shard: s, epoch: epoch, instance: p.routing.Route(s).Instance, keys: p.routing.KeyConfig()}
	w.checkAdmission(p, r)
	p.reqs = append(p.reqs, r)
	w.cover.requests++
	if p.stopAt(pauseAfterAdmit, func() { p.write(r) }) {
		return
	}
	d := w.span(0, 2*time.Millisecond)
	if w.n(12) == 0 {
		d = w.span(5*time.Millisecond, 700*time.Millisecond)
	}
	w.after(d, p, func() { p.write(r) })
}

// write checks the lease again and sends the first byte.
func (p *proc) write(r *simReq) {
	if r.cut {
		return // finish follows
	}
	if p.clock() >= p.until && p.w.plant != plantOneCheck {
		p.finish(r)
		return
	}
	if p.stopAt(pauseBeforeWrite, func() { r.late = true; p.run(r) }) {
		return
	}
	p.run(r)
}

func (p *proc) run(r *simReq) {
	w := p.w
	if r.cut {
		return
	}
	if p.h.instanceIsDown(r.instance) {
		p.finish(r)
		return
	}
	if p.appRefuses(r.instance) {
		p.finish(r)
		return
	}
	r.running = true
	w.checkRun(p, r)
	w.checkServiceRun(p, r)
	w.checkCached(p, r)
	if !w.checkFirstByte(p, r) {
		p.finish(r)
		return
	}
	w.checkChange(r)
	d := w.span(time.Millisecond, 40*time.Millisecond)
	switch w.n(24) {
	case 0, 1, 2:
		d = w.span(100*time.Millisecond, 1500*time.Millisecond)
	case 3:
		d = w.span(time.Second, 9*time.Second)
		if w.n(2) == 0 {
			d = 1000 * time.Hour // a tunnel: it ends when it is cut
		}
	}
	w.after(d, p, func() { p.finish(r) })
}

// finish lowers the count. A request at an instance that hangs ends only when it is cut, or when the
// instance continues.
func (p *proc) finish(r *simReq) {
	if !r.cut && r.running && p.h.instanceHangs(r.instance) {
		p.w.after(20*time.Millisecond, p, func() { p.finish(r) })
		return
	}
	for i, x := range p.reqs {
		if x == r {
			p.reqs[i] = p.reqs[len(p.reqs)-1]
			p.reqs = p.reqs[:len(p.reqs)-1]
			if p.awaited {
				p.w.after(p.w.span(0, time.Millisecond), p, p.step)
			}
			return
		}
	}
}
