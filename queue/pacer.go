package queue

import (
	"runtime"
	"time"
)

const (
	// looksInRound is how often a ramp looks, within a Pace, whether more may be away.
	looksInRound = 5
	// busyShare is the part of its processors that a process has used which has no room for
	// more, in percent.
	busyShare = 80
	// mostMissed is how many a steady ramp lets go at once, however late a timer is.
	mostMissed = 64
)

// ramp lets those go that are due, first in, first out, and no more at once than get on.
// All of them together would be seconds of processor time in one moment, and a connection
// each, and whoever comes meanwhile, for a shard that had its owner all along, would wait
// behind them; a few at a time are served as soon, and over the same connections.
//
// How many those are nobody knows beforehand: as many as machine and app can do at once. So
// there are few at first, and twice as many after each look at which the process has had
// all the processor time that it could use; where it has to wait for some, as many more in
// each round as there were at first, or twice as many if most are still away: what an app
// takes its time for is not what the processors are busy with. While all who go find that
// they have to wait on it stays as it is: the next table may let them all go in the same
// moment. Room.mu guards it.
type ramp struct {
	due    line
	window int       // so many may be away at once
	away   int       // are: let go in this round, and neither served nor waiting again
	back   int       // let go in this round, and served or given up
	round  uint64    // from 1: who was let go in an earlier one counts no longer
	looks  int       // in this round
	timed  bool      // the timer runs
	since  time.Time // since when
	more   int       // of a steady one, so many beside a batch may go in this round: its timer was late
	went   bool      // since the last look somebody has found its owner
	vain   bool      // since then somebody has come back to wait

	used      time.Duration // by the process, when it was looked last
	preempted int64         // as well
}

// release lets as many of those due go as the ramp allows. With mu held.
func (r *Room) release() {
	p := &r.ramp
	if p.due.head != nil && !p.timed {
		r.begin()
		r.lookLater()
	}
	for p.due.head != nil && p.away < p.window+p.more {
		t := p.due.head
		p.due.remove(t)
		if t.round = p.round; r.opt.Steady {
			t.round = 0
		}
		p.away++
		r.stats.Awakened++
		t.ready <- struct{}{} // has room: a ticket gets in line only when it is empty
	}
}

// begin begins a release, and with it a round. With mu held.
func (r *Room) begin() {
	p := &r.ramp
	p.window, p.looks, p.more, p.away, p.back = r.opt.Batch, 0, 0, 0, 0
	p.round++
	p.went, p.vain = false, false
	p.since = time.Now()
	p.used, p.preempted = r.Spent()
}

// wake makes those due of whom it is true. If nobody was due before, another release begins,
// however short a time ago the last one ended: how many that had away in the end says
// nothing of what these want. A steady one goes by its timer alone. With mu held.
func (r *Room) wake(whom func(t *Ticket) bool) {
	p := &r.ramp
	ended := p.due.head == nil
	for t := r.idle.head; t != nil; {
		next := t.next
		if whom(t) {
			r.idle.remove(t)
			p.due.push(t)
		}
		t = next
	}
	if ended && p.due.head != nil && p.timed && !r.opt.Steady {
		r.begin()
	}
	r.release()
}

// lookLater sets the timer. With mu held.
func (r *Room) lookLater() {
	p := &r.ramp
	p.timed, p.since = true, time.Now()
	time.AfterFunc(r.every(), r.look)
}

// every is the time between two looks.
func (r *Room) every() time.Duration {
	if r.opt.Steady {
		return r.opt.Pace
	}
	return r.opt.Pace / looksInRound
}

// look finds out whether more may be away at once, and begins a new round after Pace: who
// was let go in the last one no longer keeps others waiting. The timer that calls it runs
// only while somebody is due.
func (r *Room) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.ramp
	p.timed = false
	if p.due.head == nil {
		return
	}
	took := time.Since(p.since)
	p.looks++
	over := r.opt.Steady || p.looks == looksInRound
	pressed, vain := r.pressed(took), p.vain && !p.went
	p.went, p.vain = false, false
	switch {
	case r.opt.Steady:
		p.more = r.missed(took - r.opt.Pace)
	case vain: // the table has no owner for them, which says nothing of what one can do
	case !pressed, over && p.back < p.away:
		p.window *= 2
	case over:
		p.window += r.opt.Batch
	}
	if over {
		p.round++
		p.looks, p.away, p.back = 0, 0, 0
	}
	r.lookLater()
	r.release()
}

// pressed reports whether the process has had to wait for processors since the last look,
// each of two of those that it may use once, or has used up what it may have of them. With
// mu held.
func (r *Room) pressed(took time.Duration) bool {
	p := &r.ramp
	used, preempted := r.Spent()
	may := runtime.GOMAXPROCS(0)
	pressed := preempted-p.preempted >= int64(may+1)/2 || (used-p.used)*100 >= took*time.Duration(busyShare*may)
	p.used, p.preempted = used, preempted
	return pressed
}

// Spent is Options.Spent, zeros if there is none.
func (r *Room) Spent() (used time.Duration, preempted int64) {
	if r.opt.Spent == nil {
		return 0, 0
	}
	return r.opt.Spent()
}

// missed is how many go beside a batch whose timer was so late: a node that is late slows
// a steady ramp by nothing but what is not awakened at once then.
func (r *Room) missed(late time.Duration) int {
	n := int64(r.opt.Batch) * int64(late) / int64(r.opt.Pace)
	return int(max(0, min(n, int64(mostMissed-r.opt.Batch))))
}
