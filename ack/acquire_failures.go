package ack

import (
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

const (
	// MaxUnacquired is the maximum number of shards that a heartbeat reports as not acquired.
	MaxUnacquired = 256
	// stuckAttempts and stuckAfter are how many attempts to acquire a shard fail, and for how
	// long at least, before another node is to own it.
	stuckAttempts     = 3
	defaultStuckAfter = 5 * time.Second
	// waitingAfter is how long a shard whose acquire has failed counts as waiting, and
	// hangingAfter how long one whose acquire has no result yet.
	waitingAfter = 2 * time.Second
	hangingAfter = 10 * time.Second
	// backoffFirst and backoffMost bound the time for which a node is not given a shard again
	// that its app did not acquire. It doubles with each failure.
	defaultBackoff = 30 * time.Second
	maxBackoff     = 10 * time.Minute
	// judgeEvery is the time between two looks at what is not acquired, so that what fails
	// together is reported together.
	updateInterval = time.Second
)

// unacquired is what the app of this node does not acquire. It has the back-off, so that a new
// leader goes by the same.
type acquireFailureState struct {
	shards map[shardmap.Shard]*failedShard
	// list and waiting are what heartbeats report.
	reported     []shardmap.Shard
	waitingCount int

	// unable: all recent attempts failed, so the node is to get no more shards. It ends with a
	// success. A node that owns none of the failed shards any more tries a call without shards,
	// the probe, at tryAt.
	unable      bool
	strikes     int
	probeAt     time.Duration
	probeSeq    uint64        // seq of the probe that is under way; zero: none is
	recoveredAt time.Duration // when unable ended
	lastSuccess time.Duration // when an acquire succeeded

	active     bool          // there is something to look at
	nextUpdate time.Duration // when
}

// unacquiredShard is a shard that the app has failed to acquire.
type failedShard struct {
	strikes      int
	failing      bool          // the node owns it, and the app still fails
	backoffUntil time.Duration // the end of the back-off, once it does not
}

// backoff returns the time for which nothing is tried after so many failures.
func (o *HookOptions) backoff(strikes int) time.Duration {
	first, most := defaultBackoff, maxBackoff
	if o.Backoff > 0 {
		first, most = o.Backoff, 8*o.Backoff
	}
	return min(first<<min(strikes-1, 10), most)
}

func (o *HookOptions) stuckAfter() time.Duration {
	if o.StuckAfter > 0 {
		return o.StuckAfter
	}
	return defaultStuckAfter
}

// serves reports that the app has acquired any shard.
func (m *hookMachine) servesAny() bool {
	return slices.ContainsFunc(m.acquired, func(e shardmap.Epoch) bool { return e > 0 })
}

// stuck reports that a shard is to go to another node.
func (m *hookMachine) stuck(now time.Duration, h *heldShard) bool {
	return h.phase == HookAcquiring && h.failures >= stuckAttempts && now-h.since >= m.o.stuckAfter()
}

// judge finds out what the app does not acquire. It is due every judgeEvery as long as there
// is anything.
func (m *hookMachine) updateAcquireFailures(now time.Duration) {
	u := &m.acquireFailures
	if !u.active {
		return
	}
	if now < u.nextUpdate {
		m.wakeAt(u.nextUpdate)
		return
	}
	acquiring, serving, stuck, first := 0, 0, 0, now
	u.waitingCount = 0
	for i := range m.shards {
		h := &m.shards[i]
		switch h.phase { //nolint:exhaustive // the other phases hold nothing that was acquired
		case HookServing:
			serving++
		case HookAcquiring:
			acquiring++
			if age := now - h.since; m.seen.mayServe && (h.failures > 0 && age >= min(waitingAfter, m.o.stuckAfter()) || age >= hangingAfter) {
				u.waitingCount++
			}
			if m.stuck(now, h) {
				stuck++
				first = min(first, h.since)
				u.markStuck(shardmap.Shard(i))
			}
		}
	}
	for s, x := range u.shards {
		h := &m.shards[s]
		switch {
		case h.phase == HookServing:
			delete(u.shards, s)
		case x.failing && (h.phase != HookAcquiring):
			x.failing, x.backoffUntil = false, now+m.o.backoff(x.strikes)
		case !x.failing && now >= x.backoffUntil+m.o.backoff(64):
			delete(u.shards, s) // long ago
		}
	}
	u.reported = u.reported[:0:0]
	for _, s := range slices.Sorted(maps.Keys(u.shards)) {
		if x := u.shards[s]; x.failing || now < x.backoffUntil {
			u.reported = append(u.reported, s)
		}
	}
	m.updateUnable(now, stuck, serving, u.lastSuccess < first)
	u.active = acquiring > 0 || len(u.shards) > 0 || u.unable || u.strikes > 0
	u.nextUpdate = now + updateInterval
	m.wakeAt(u.nextUpdate)
}

// fails notes a shard that is stuck. A map without room means that the node reports the
// others first.
func (u *acquireFailureState) markStuck(s shardmap.Shard) {
	x := u.shards[s]
	switch {
	case x == nil && len(u.shards) >= MaxUnacquired:
		return
	case x == nil:
		x = &failedShard{}
		setKey(&u.shards, s, x)
	}
	if !x.failing {
		x.failing = true
		x.strikes++
	}
}

// judgeAll finds out whether the app acquires anything. inVain: nothing has been acquired
// since the first of the stuck shards was to be.
func (m *hookMachine) updateUnable(now time.Duration, stuck, serving int, inVain bool) {
	u := &m.acquireFailures
	switch {
	case !u.unable && inVain && (stuck > 1 || stuck == 1 && serving == 0):
		u.unable, u.strikes = true, u.strikes+1
		u.probeAt = 0
	case u.unable && stuck > 0:
		u.probeAt = 0 // its shards are tried
	case u.unable && u.probeAt == 0:
		u.probeAt = now + m.o.backoff(u.strikes)
	case u.unable && now >= u.probeAt && u.probeSeq == 0 && m.seen.mayServe && !m.seen.stopping:
		u.probeSeq = m.startCall(now, HookAcquire, nil)
	case !u.unable && u.strikes > 0 && now-u.recoveredAt >= m.o.backoff(64):
		u.strikes = 0
	}
	if c := m.running[u.probeSeq]; c != nil && (m.seen.stopping || !m.seen.mayServe) {
		m.cancel(c)
	}
}

// succeeds notes that the app has acquired something.
func (u *acquireFailureState) acquireSucceeded(now time.Duration) {
	u.lastSuccess = now
	if u.unable {
		u.unable, u.recoveredAt = false, now
	}
}

// probed takes the result of a probe.
func (m *hookMachine) probeEnded(now time.Duration, c *runningCall, r HookResult) {
	u := &m.acquireFailures
	if c.Seq != u.probeSeq {
		return
	}
	u.probeSeq = 0
	switch {
	case r.Err == nil:
		u.acquireSucceeded(now)
	case c.cancelled && now < c.deadline: // it has not failed
		u.probeAt = now
	case u.unable:
		u.strikes++
		u.probeAt = now + m.o.backoff(u.strikes)
	}
}

// unacquired returns what a heartbeat reports.
func (a *Agent) acquireReport() (list []shardmap.Shard, waiting uint32, unable bool) {
	if a.hooks == nil {
		return nil, 0, false
	}
	u := &a.hooks.acquireFailures
	return u.reported, uint32(u.waitingCount), u.unable
}

// unacquired writes shards in their order, each by its distance from the one before.
func (w *writer) shardList(list []shardmap.Shard) {
	w.uint(uint64(len(list)))
	next := shardmap.Shard(0)
	for _, s := range list {
		w.uint(uint64(s - next))
		next = s + 1
	}
}

func (r *reader) shardList() (list []shardmap.Shard) {
	next := uint64(0)
	for range r.uint(0, MaxUnacquired) {
		s := next + r.uint(0, MaxShards)
		if s >= MaxShards {
			r.fail("no such shard")
		}
		if r.err != nil {
			return nil
		}
		list = append(list, shardmap.Shard(s))
		next = s + 1
	}
	return list
}

// relocate changes the rules of the next map by what the apps do not acquire. A shard goes to
// the member with the fewest shards whose app has not failed to acquire it, and stays there.
// If there is none, the shard stays where it is. A member whose app acquires nothing gets
// nothing new, as if it were cordoned.
func (l *Leader) avoidFailingApps(p *shardmap.Policy, members []shardmap.Member) {
	base, avoid := l.state.Committed(), map[shardmap.Shard]map[shardmap.NodeID]bool{}
	cordoned := false
	for _, m := range members {
		n := l.member(m.ID)
		for _, s := range n.heartbeat.Unacquired {
			if int(s) < base.Len() {
				if avoid[s] == nil {
					avoid[s] = map[shardmap.NodeID]bool{}
				}
				avoid[s][m.ID] = true
			}
		}
		if n.heartbeat.Unable && !p.Cordoned[m.ID] {
			if !cordoned {
				p.Cordoned, cordoned = maps.Clone(p.Cordoned), true
			}
			setKey(&p.Cordoned, m.ID, true)
		}
	}
	if len(avoid) == 0 {
		return
	}
	counts := map[shardmap.NodeID]int{}
	for _, m := range members {
		if !p.Absent[m.ID] && !p.Cordoned[m.ID] && !p.Emptying[m.ID] && !p.Drained[m.ID] {
			counts[m.ID] = base.Count(m.ID)
		}
	}
	p.Pins = maps.Clone(p.Pins)
	for _, s := range slices.Sorted(maps.Keys(avoid)) {
		if to := l.relocationTarget(p, members, base.Owner(s), s, avoid[s], counts); to != "" {
			setKey(&p.Pins, s, shardmap.Pin{Node: to})
			counts[to]++
		}
	}
}

// takes returns the member that is to own a shard which the apps of avoid do not acquire;
// empty: the shard is placed like any other.
func (l *Leader) relocationTarget(p *shardmap.Policy, members []shardmap.Member, owner shardmap.NodeID, s shardmap.Shard, avoid map[shardmap.NodeID]bool, counts map[shardmap.NodeID]int) (to shardmap.NodeID) {
	pin, pinned := p.Pins[s]
	_, fits := counts[pin.Node]
	if pinned && fits && !avoid[pin.Node] {
		return ""
	}
	is := func(m shardmap.Member) bool { return m.ID == owner }
	stays := slices.ContainsFunc(members, is) && !p.Emptying[owner] && !p.Drained[owner]
	if stays && !avoid[owner] {
		return owner
	}
	for _, m := range members {
		count, may := counts[m.ID]
		if !may || avoid[m.ID] || pinned && pin.Zone != "" && p.Zones[m.ID] != pin.Zone {
			continue
		}
		if to == "" || count < counts[to] {
			to = m.ID
		}
	}
	if to == "" && stays {
		return owner
	}
	return to
}
