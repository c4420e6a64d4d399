package queue

import (
	"runtime"
	"time"

	"shardway/internal/linkedlist"
)

const (
	// checksPerRound is the number of timer ticks per Options.Pace.
	checksPerRound = 5
	// busyPercent is the share of its CPUs above which the process counts as saturated.
	busyPercent = 80
	// maxBurst limits how many tickets are released at once at a fixed rate after a late timer.
	maxBurst = 64
)

// pacer releases due tickets in FIFO order, and limits how many are outstanding: released, and
// neither answered nor waiting again.
//
// Releasing all tickets at once would cost seconds of CPU time and one connection each. Requests
// for shards that never lost their owner would wait behind them. A few tickets at a time are
// answered as soon, and reuse the same connections.
//
// The right limit is unknown in advance: it is as many as the machine and the app can process
// concurrently. As a result, it starts at Options.Batch and grows:
//
//   - It doubles at each check while the process is not short of CPU time.
//   - Otherwise it grows by Options.Batch per round. It doubles if most tickets of the round are
//     still outstanding, because then the app spends the time and not the CPUs of this node.
//   - It stays the same if all released tickets had to wait again, because the next routing
//     table may release all of them at once.
//
// Queue.mu protects all fields.
type pacer struct {
	dueTickets  linkedlist.List[*Ticket]
	limit       int       // maximum of outstanding
	outstanding int       // tickets released in this round that have neither left nor waited again
	finished    int       // tickets released in this round that have left
	round       uint64    // number of the current round, from 1
	checks      int       // number of checks in this round
	timerActive bool      // a call of onTimer is scheduled
	lastCheck   time.Time // start of the release, or time at which the timer was started
	catchUp     int       // at a fixed rate: additional releases in this round after a late timer
	anyDequeued bool      // a ticket was dequeued since the last check
	anyRequeued bool      // a released ticket waited again since the last check

	cpuUsed   time.Duration // CPU time of the process at the last check
	preempted int64         // number of preemptions at the last check
}

// releaseLocked releases as many due tickets as the limit allows. q.mu must be held.
func (q *Queue) releaseLocked() {
	p := &q.pacer
	if p.dueTickets.Len() > 0 && !p.timerActive {
		q.startReleaseLocked()
		q.startTimerLocked()
	}
	for p.dueTickets.Len() > 0 && p.outstanding < p.limit+p.catchUp {
		t := p.dueTickets.First()
		t.element.Remove()
		t.releaseRound = p.round
		if q.options.FixedRate {
			t.releaseRound = 0 // leaving does not release the next ticket
		}
		p.outstanding++
		q.stats.Released++
		t.ready <- struct{}{} // never blocks: the channel of a ticket in a list is empty
	}
}

// startReleaseLocked resets the limit to Options.Batch and starts a round. q.mu must be held.
func (q *Queue) startReleaseLocked() {
	p := &q.pacer
	p.limit = q.options.Batch
	p.catchUp = 0
	p.startRoundLocked()
	p.anyDequeued, p.anyRequeued = false, false
	p.lastCheck = time.Now()
	p.cpuUsed, p.preempted = q.CPUUsage()
}

// startRoundLocked starts a round. Tickets that were released in an earlier round no longer count as
// outstanding. Queue.mu must be held.
func (p *pacer) startRoundLocked() {
	p.round++
	p.checks, p.outstanding, p.finished = 0, 0, 0
}

// wakeLocked makes the idle tickets due for which match returns true. q.mu must be held.
//
// If no ticket was due before, a new release starts with the initial limit, even if the previous
// release has just ended: the limit that was reached then says nothing about the new tickets. At a
// fixed rate only the timer starts the next batch.
func (q *Queue) wakeLocked(match func(t *Ticket) bool) {
	p := &q.pacer
	wasEmpty := p.dueTickets.Len() == 0
	for t := range q.idleTickets.All() {
		if match(t) {
			t.element.Remove()
			p.dueTickets.PushBack(&t.element, t)
		}
	}
	firstDue := wasEmpty && p.dueTickets.Len() > 0
	if firstDue && p.timerActive && !q.options.FixedRate {
		q.startReleaseLocked()
	}
	q.releaseLocked()
}

// startTimerLocked schedules the next check. q.mu must be held.
func (q *Queue) startTimerLocked() {
	p := &q.pacer
	p.timerActive, p.lastCheck = true, time.Now()
	time.AfterFunc(q.checkInterval(), q.onTimer)
}

// checkInterval returns the time between two checks.
func (q *Queue) checkInterval() time.Duration {
	if q.options.FixedRate {
		return q.options.Pace
	}
	return q.options.Pace / checksPerRound
}

// onTimer checks whether more tickets can be outstanding at the same time, and adjusts the limit. It
// starts a new round after Options.Pace. Tickets of an earlier round no longer count as outstanding,
// so that a few slow requests do not stop the release. The timer is active only while a ticket is
// due.
func (q *Queue) onTimer() {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := &q.pacer
	p.timerActive = false
	if p.dueTickets.Len() == 0 {
		return
	}
	elapsed := time.Since(p.lastCheck)
	p.checks++
	roundOver := q.options.FixedRate || p.checks == checksPerRound
	if q.options.FixedRate {
		p.catchUp = q.catchUpCount(elapsed - q.options.Pace)
	} else {
		q.adjustLimitLocked(elapsed, roundOver)
	}
	p.anyDequeued, p.anyRequeued = false, false
	if roundOver {
		p.startRoundLocked()
	}
	q.startTimerLocked()
	q.releaseLocked()
}

// adjustLimitLocked raises the limit on outstanding tickets if the node and the app can process more
// requests concurrently. The limit doubles while CPU time is available. It also doubles if most
// tickets of a round are still outstanding: then the app limits the rate, and more requests cost this
// node little. Otherwise the limit grows by Options.Batch per round. elapsed is the time since the
// last check. roundOver is set if this check ends a round. q.mu must be held.
func (q *Queue) adjustLimitLocked(elapsed time.Duration, roundOver bool) {
	p := &q.pacer
	saturated := q.cpuSaturatedLocked(elapsed)
	allRequeued := p.anyRequeued && !p.anyDequeued
	mostlyOutstanding := p.finished < p.outstanding
	switch {
	case allRequeued: // keep the limit: without an owner, the requests were not processed, so the capacity is unknown
	case !saturated, roundOver && mostlyOutstanding:
		p.limit *= 2
	case roundOver:
		p.limit += q.options.Batch
	}
}

// cpuSaturatedLocked reports whether the process was short of CPU time in the time elapsed since
// the last check: it used more than busyPercent of its CPUs, or was preempted at least once per two
// CPUs. q.mu must be held.
func (q *Queue) cpuSaturatedLocked(elapsed time.Duration) bool {
	p := &q.pacer
	used, preempted := q.CPUUsage()
	procs := runtime.GOMAXPROCS(0)
	wasPreempted := preempted-p.preempted >= int64(procs+1)/2
	usedMost := (used-p.cpuUsed)*100 >= elapsed*time.Duration(busyPercent*procs)
	p.cpuUsed, p.preempted = used, preempted
	return wasPreempted || usedMost
}

// CPUUsage returns the result of Options.CPUUsage, or zeros if that is nil.
func (q *Queue) CPUUsage() (used time.Duration, preempted int64) {
	if q.options.CPUUsage == nil {
		return 0, 0
	}
	return q.options.CPUUsage()
}

// catchUpCount returns how many tickets to release in addition to the next batch if the timer was
// late, so a busy node releases as many tickets per second as an idle one. It is limited, so that a
// very late timer does not release everything at once.
func (q *Queue) catchUpCount(late time.Duration) int {
	missed := int64(q.options.Batch) * int64(late) / int64(q.options.Pace)
	limit := int64(maxBurst - q.options.Batch)
	return int(max(0, min(missed, limit)))
}
