package queue

import (
	"runtime"
	"time"
)

const (
	// checksPerRound is how often a ramp looks, within a Pace, whether more may be away.
	checksPerRound = 5
	// busyPercent is the part of its processors that a process has used which has no room for
	// more, in percent.
	busyPercent = 80
	// maxBurst is how many a steady ramp lets go at once, however late a timer is.
	maxBurst = 64
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
// moment. Queue.mu guards it.
type pacer struct {
	due         list
	limit       int       // so many may be away at once
	outstanding int       // are: let go in this round, and neither served nor waiting again
	finished    int       // let go in this round, and served or given up
	round       uint64    // from 1: who was let go in an earlier one counts no longer
	checks      int       // in this round
	timerActive bool      // the timer runs
	lastCheck   time.Time // since when
	catchUp     int       // of a steady one, so many beside a batch may go in this round: its timer was late
	dequeued    bool      // since the last look somebody has found its owner
	requeued    bool      // since then somebody has come back to wait

	cpuUsed   time.Duration // by the process, when it was looked last
	preempted int64         // as well
}

// release lets as many of those due go as the ramp allows. With mu held.
func (q *Queue) releaseLocked() {
	p := &q.pacer
	if p.due.head != nil && !p.timerActive {
		q.startReleaseLocked()
		q.startTimerLocked()
	}
	for p.due.head != nil && p.outstanding < p.limit+p.catchUp {
		t := p.due.head
		p.due.remove(t)
		if t.round = p.round; q.opt.FixedRate {
			t.round = 0
		}
		p.outstanding++
		q.stats.Released++
		t.ready <- struct{}{} // has room: a ticket gets in line only when it is empty
	}
}

// begin begins a release, and with it a round. With mu held.
func (q *Queue) startReleaseLocked() {
	p := &q.pacer
	p.limit, p.checks, p.catchUp, p.outstanding, p.finished = q.opt.Batch, 0, 0, 0, 0
	p.round++
	p.dequeued, p.requeued = false, false
	p.lastCheck = time.Now()
	p.cpuUsed, p.preempted = q.CPUUsage()
}

// wake makes those due of whom it is true. If nobody was due before, another release begins,
// however short a time ago the last one ended: how many that had away in the end says
// nothing of what these want. A steady one goes by its timer alone. With mu held.
func (q *Queue) wakeLocked(match func(t *Ticket) bool) {
	p := &q.pacer
	wasEmpty := p.due.head == nil
	for t := q.idle.head; t != nil; {
		next := t.next
		if match(t) {
			q.idle.remove(t)
			p.due.push(t)
		}
		t = next
	}
	if wasEmpty && p.due.head != nil && p.timerActive && !q.opt.FixedRate {
		q.startReleaseLocked()
	}
	q.releaseLocked()
}

// startTimerLocked sets the timer. With mu held.
func (q *Queue) startTimerLocked() {
	p := &q.pacer
	p.timerActive, p.lastCheck = true, time.Now()
	time.AfterFunc(q.checkInterval(), q.onTimer)
}

// every is the time between two looks.
func (q *Queue) checkInterval() time.Duration {
	if q.opt.FixedRate {
		return q.opt.Pace
	}
	return q.opt.Pace / checksPerRound
}

// look finds out whether more may be away at once, and begins a new round after Pace: who
// was let go in the last one no longer keeps others waiting. The timer that calls it runs
// only while somebody is due.
func (q *Queue) onTimer() {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := &q.pacer
	p.timerActive = false
	if p.due.head == nil {
		return
	}
	took := time.Since(p.lastCheck)
	p.checks++
	roundOver := q.opt.FixedRate || p.checks == checksPerRound
	saturated, allRequeued := q.cpuSaturatedLocked(took), p.requeued && !p.dequeued
	p.dequeued, p.requeued = false, false
	switch {
	case q.opt.FixedRate:
		p.catchUp = q.catchUp(took - q.opt.Pace)
	case allRequeued: // the table has no owner for them, which says nothing of what one can do
	case !saturated, roundOver && p.finished < p.outstanding:
		p.limit *= 2
	case roundOver:
		p.limit += q.opt.Batch
	}
	if roundOver {
		p.round++
		p.checks, p.outstanding, p.finished = 0, 0, 0
	}
	q.startTimerLocked()
	q.releaseLocked()
}

// pressed reports whether the process has had to wait for processors since the last look,
// each of two of those that it may use once, or has used up what it may have of them. With
// mu held.
func (q *Queue) cpuSaturatedLocked(took time.Duration) bool {
	p := &q.pacer
	used, preempted := q.CPUUsage()
	procs := runtime.GOMAXPROCS(0)
	saturated := preempted-p.preempted >= int64(procs+1)/2 || (used-p.cpuUsed)*100 >= took*time.Duration(busyPercent*procs)
	p.cpuUsed, p.preempted = used, preempted
	return saturated
}

// CPUUsage is Options.CPUUsage, zeros if there is none.
func (q *Queue) CPUUsage() (used time.Duration, preempted int64) {
	if q.opt.CPUUsage == nil {
		return 0, 0
	}
	return q.opt.CPUUsage()
}

// missed is how many go beside a batch whose timer was so late: a node that is late slows
// a steady ramp by nothing but what is not awakened at once then.
func (q *Queue) catchUp(late time.Duration) int {
	n := int64(q.opt.Batch) * int64(late) / int64(q.opt.Pace)
	return int(max(0, min(n, int64(maxBurst-q.opt.Batch))))
}
