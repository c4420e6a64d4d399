package ack

import (
	"math"
	"slices"
	"time"

	"shardway/shardmap"
)

const (
	// attemptMost bounds an attempt to release, and one to tell that a shard is lost.
	attemptMost = 2 * time.Second
	// retryFirst and retryMost bound the pause between two attempts, which doubles.
	retryFirst = 100 * time.Millisecond
	retryMost  = 2 * time.Second
	// lostShare is the part of ReleaseTimeout that is kept for telling that what could not
	// be released is lost, and lostLeast the least of it unless that is more than half: a
	// look or two of a busy machine.
	lostShare = 8
	lostLeast = 100 * time.Millisecond
	// deliverShare is the part of ReleaseTimeout that is kept for bringing the leader what
	// was released, deliverLeast the least of it unless that is more than a quarter, and
	// deliverAgain the pause between two attempts at that.
	deliverShare = 16
	deliverLeast = 100 * time.Millisecond
	deliverAgain = 100 * time.Millisecond
	// lostFor is how long an app that does not take it is told that a shard is lost.
	lostFor = time.Minute
	// splitBy is by how much the calls get smaller that name shards of one that was not
	// answered: one shard that hangs holds up few others.
	splitBy = 16
)

// hooks decides what the app is told of the shards of its node. An Agent owns it; it
// moves on only within a look, after lease and table of that look were published.
type hooks struct {
	o      HookOptions
	self   shardmap.NodeID
	server string
	boot   uint64
	calls  uint64 // made so far
	under  map[uint64]*calling
	first  [HookLost + 1]shardmap.Shard // by kind: who found no room comes first

	shards   []holding
	acquired []shardmap.Epoch // by shard, zero: it does not serve; published, so never changed
	results  []HookResult     // since the last look
	asked    []ownership      // what the app says it does not hold

	since  shardmap.Epoch // what this process owned before is higher than this only if it is new to it
	leased bool           // since is set
	// absences is the last entry on an absence that a leader has told of. Until it is applied
	// here, nobody knows with what the last process has restarted in place.
	absences uint64

	drain     shardmap.Epoch // the proposal that the three below are about
	releaseBy time.Duration  // zero: requests of shards that move still run
	refused   bool           // nothing answers at the app's address: no attempt to release helps
	partBy    time.Duration  // when a node that leaves says goodbye whatever its app does; zero: it stays
	hope      hope
	kept      shardmap.Epoch // the map of which it was put together what waits for the next process
	delivery

	un          unacquired
	keeping     keeping
	spoke       bool                             // the leader is to hear of keeping
	notReleased map[shardmap.Shard]time.Duration // when it moved though the app had not released it

	stale bool          // something has changed since the last look
	next  time.Duration // when something is due though nothing changes
	saw   sight
}

// ownership is a shard under one ownership epoch.
type ownership struct {
	shard shardmap.Shard
	epoch shardmap.Epoch
}

// holding is what the app has of one shard. The zero value is gone.
type holding struct {
	phase HookPhase // zero: HookGone
	since time.Duration
	// epoch is the ownership epoch that all of this is about.
	epoch shardmap.Epoch
	// call is under way and names the shard; zero: none is.
	call uint64
	// told: the app may hold the shard under epoch. tried: it may have released it. has: it
	// has acquired it, and does not serve yet.
	told, tried, has bool
	// served: it has served under epoch. released: the app has released it since, and left
	// note. An acquire voids that.
	served, released bool
	note             []byte
	// forget: it is to be told that the shard is lost, until forgetBy.
	forget   bool
	forgetBy time.Duration
	// due is when the next attempt is, pause what the last one waited, most how many
	// shards may be in its call.
	due, pause time.Duration
	most       int
	cut        int
	err        string
	failures   int  // attempts to acquire it that failed
	answered   bool // the app has answered a release, with an error
}

// calling is an attempt that is under way.
type calling struct {
	HookCall
	endBy time.Duration
	cut   bool
}

// sight is what a look goes by.
type sight struct {
	state *State
	// granted: the lease holds, or the node has ended it itself and it would.
	granted bool
	// leased: it may serve.
	leased   bool
	draining shardmap.Epoch
	parting  bool
	back     bool // and the node comes back: its shards wait for its next process
}

func newHooks(o HookOptions, self shardmap.NodeID, server string, boot uint64) *hooks {
	return &hooks{o: o, self: self, server: server, boot: boot, under: map[uint64]*calling{}, acquired: []shardmap.Epoch{}, notReleased: map[shardmap.Shard]time.Duration{}, stale: true}
}

// look moves every shard on and publishes what serves by the given function, before
// it counts what runs and before a call leaves.
func (k *hooks) look(now time.Duration, v sight, publish func()) {
	if !k.stale && v == k.saw && now < k.next {
		return
	}
	k.saw, k.stale, k.next = v, false, now+time.Hour
	k.fit(v)
	k.lookKeeping()
	for _, r := range k.results {
		k.take(now, r)
	}
	k.results = k.results[:0]
	for _, o := range k.asked {
		if h := &k.shards[o.shard]; h.phase == HookServing && h.epoch == o.epoch {
			h.enter(now, HookAcquiring)
		}
	}
	k.asked = k.asked[:0]
	for s := range k.shards {
		k.turn(now, shardmap.Shard(s), &k.shards[s])
	}
	if k.publishes() {
		publish()
	}
	k.begin(now)
	k.judge(now)
	k.overdue(now)
}

// fit makes room for the shards of a cluster just born, and starts what counts from
// the first lease and from the present proposal.
func (k *hooks) fit(v sight) {
	if n := v.state.Shards(); n > len(k.shards) {
		k.shards = make([]holding, n)
		k.acquired = make([]shardmap.Epoch, n)
	}
	if v.leased && !k.leased {
		// A lease says that the last map proposed was known here by now, or the
		// committed one: what is given by a later one no earlier process had.
		k.leased, k.since = true, v.state.Last().Epoch()
	}
	if k.hope.on = k.hopeless(); !k.hope.on {
		k.hope = hope{}
	}
	if v.draining != 0 && v.draining != k.drain {
		k.drain, k.releaseBy, k.refused = v.draining, 0, false
	}
}

// standing is what the log says of a shard.
type standing struct {
	epoch shardmap.Epoch // of its present owner
	mine  bool           // the committed map names this node
	stays bool           // and nothing takes it from it
}

func (k *hooks) standing(s shardmap.Shard) standing {
	c := k.saw.state.Committed()
	st := standing{epoch: c.OwnedSince(s), mine: c.Epoch() > 0 && c.Owner(s) == k.self}
	st.stays = st.mine && k.saw.state.Last().Owner(s) == k.self && !k.saw.parting
	return st
}

// turn is every transition that the log, the lease and the time lead to. Results lead
// to the others, see take.
func (k *hooks) turn(now time.Duration, s shardmap.Shard, h *holding) {
	st := k.standing(s)
	same := st.mine && st.epoch == h.epoch
	if h.call != 0 {
		k.hurry(now, s, st, h)
		return // one delivery at a time
	}
	switch h.phase {
	case HookAcquiring:
		switch {
		case !st.stays || !same:
			h.leave(now)
		case h.has && k.saw.leased:
			h.enter(now, HookServing)
			h.served = true
		}
	case HookServing:
		switch {
		case !same:
			h.leave(now)
		case !st.stays:
			h.enter(now, HookReleasing)
			h.cut = 0
		}
	case HookReleasing:
		switch {
		case !same:
			h.leave(now)
		case !st.stays && k.late(now, s) && k.keeps(s, h):
			// the next proposal leaves it here
		case !st.stays && k.late(now, s):
			k.unreleased(now, s, h)
			h.leave(now)
		case st.stays && h.tried:
			h.enter(now, HookAcquiring)
		case st.stays: // nothing has left yet
			h.enter(now, HookServing)
		}
	case HookGone:
	}
	if h.gone() && st.stays {
		h.told, h.served = h.told && same, h.served && same
		if !same {
			h.released, h.note = false, nil
		}
		h.epoch, h.forget = st.epoch, false
		h.enter(now, HookAcquiring)
	}
	if h.forget && now >= h.forgetBy {
		h.forget = false
	}
}

func (h *holding) gone() bool { return h.phase == 0 || h.phase == HookGone }

func (h *holding) enter(now time.Duration, p HookPhase) {
	h.phase, h.since, h.due, h.pause, h.most, h.tried, h.has, h.err = p, now, now, 0, MaxHookShards, false, false, ""
	h.answered, h.failures = false, 0
}

// leave gives a shard up that the app may still hold, and that it is to forget.
func (h *holding) leave(now time.Duration) {
	h.enter(now, HookGone)
	h.forget, h.forgetBy = h.told, now+lostFor
}

// late reports that a shard that moves waits no longer for its release: the node has
// had its time, or nothing can come of it any more.
func (k *hooks) late(now time.Duration, s shardmap.Shard) bool {
	if k.refused || now >= k.deadline(s)-k.lostTime() {
		return true
	}
	d := k.saw.state.drops[k.self]
	return k.hopeless() && (k.hope.over || d.InForce && d.Cause.slow()) // the way back of one who is slow is to acknowledge that
}

// hopeless reports that no release can leave as things are, for want of a lease: the node
// leaves, or is left out and gets none before it has acknowledged that.
func (k *hooks) hopeless() bool {
	return !k.saw.granted && (k.saw.parting || k.saw.state.Dropped(k.self))
}

// lostTime is kept of ReleaseTimeout for telling what is lost.
func lostTime(release time.Duration) time.Duration {
	return max(release/lostShare, min(lostLeast, release/2))
}

// deliverTime is kept of it for bringing the leader what was released.
func deliverTime(release time.Duration) time.Duration {
	return max(release/deliverShare, min(deliverLeast, release/4))
}

// deadline is when the app has had its time to be told what the node gives up now of a
// shard: what is under way then is cut, and nothing more begun before that is done. Only of
// what moves an acknowledgement waits for, and that waits no longer because the node leaves, too.
func (k *hooks) deadline(s shardmap.Shard) time.Duration {
	by := k.parting()
	if k.saw.state.Last().Owner(s) != k.self {
		by = min(by, k.moving())
	}
	return by
}

// moving is when an acknowledgement waits for the app no more, parting when a goodbye does.
func (k *hooks) moving() time.Duration { return unless(k.saw.draining == 0, k.releaseBy) }

func (k *hooks) parting() time.Duration { return unless(!k.saw.parting, k.partBy) }

// unless returns a deadline, or that there is none: off, or zero as long as requests run.
func unless(off bool, by time.Duration) time.Duration {
	if off || by == 0 {
		return math.MaxInt64
	}
	return by
}

// hurry cuts a call that nothing good can come of any more. An acquire of a shard that
// moves is one, for the map change waits for it.
func (k *hooks) hurry(now time.Duration, s shardmap.Shard, st standing, h *holding) {
	c := k.under[h.call]
	over := false
	switch c.Kind {
	case HookAcquire:
		over = !st.stays || st.epoch != h.epoch
	case HookRelease:
		over = !st.mine || st.epoch != h.epoch || !st.stays && k.late(now, s)
	case HookLost:
		over = st.stays
	}
	if over || now >= k.deadline(s) {
		k.end(c)
	}
}

func (k *hooks) end(c *calling) {
	if !c.cut {
		c.cut = true
		k.o.App.CutCall(c.Seq)
	}
}

// endAll cuts every call.
func (k *hooks) endAll() {
	for _, seq := range k.order() {
		k.end(k.under[seq])
	}
}

// order returns the calls that are under way, oldest first.
func (k *hooks) order() []uint64 {
	seqs := make([]uint64, 0, len(k.under))
	for seq := range k.under {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return seqs
}

// overdue cuts the calls that have had their time.
func (k *hooks) overdue(now time.Duration) {
	for _, seq := range k.order() {
		if c := k.under[seq]; now >= c.endBy {
			k.end(c)
		} else {
			k.wake(c.endBy)
		}
	}
	for _, by := range [...]time.Duration{k.moving(), k.parting()} {
		for _, at := range [...]time.Duration{by - k.lostTime(), by} {
			if at > now {
				k.wake(at)
			}
		}
	}
}

func (k *hooks) wake(at time.Duration) { k.next = min(k.next, at) }

// publishes reports that other shards serve than were published last, and notes them.
func (k *hooks) publishes() bool {
	for s := range k.shards {
		if k.acquired[s] != k.shards[s].serves() {
			next := make([]shardmap.Epoch, len(k.shards))
			for s := range k.shards {
				next[s] = k.shards[s].serves()
			}
			k.acquired = next
			return true
		}
	}
	return false
}

// serves returns the ownership epoch under which the shard serves, zero if it does
// not.
func (h *holding) serves() shardmap.Epoch {
	if h.phase != HookServing {
		return 0
	}
	return h.epoch
}

// settled reports that the app has been told of every shard that moves, or has had its
// time for it, and that nothing of that is under way. It is asked once no request of
// such a shard runs any more.
func (k *hooks) settled(now time.Duration, may func(shardmap.Shard) bool) bool {
	if k.releaseBy == 0 {
		k.releaseBy, k.stale = now+k.release()-k.deliverTime(), true
	}
	for s := range k.shards {
		h := &k.shards[s]
		if may(shardmap.Shard(s)) {
			continue
		}
		if h.call != 0 || !h.gone() || h.forget && now < k.releaseBy {
			return false
		}
	}
	return true
}

// parted reports the same of all shards, of a node that is to say goodbye and runs no
// request any more, and that the leader has what the next process gets.
func (k *hooks) parted(now time.Duration, acked shardmap.Epoch) bool {
	if k.partBy == 0 {
		k.partBy, k.refused, k.stale = now+k.release(), false, true
		if k.saw.back {
			k.partBy -= k.deliverTime()
		}
	}
	if k.brings(now) {
		return false // at the goodbye the leader goes on without it
	}
	for s := range k.shards {
		if h := &k.shards[s]; h.phase == HookReleasing || h.phase == HookServing || h.forget && now < k.partBy {
			return false
		}
	}
	if len(k.under) > 0 {
		return false
	}
	if e := k.saw.state.Committed().Epoch(); k.saw.back && k.kept != e && acked > 0 {
		k.kept = e
		k.giveUp(now, acked)
	}
	return !k.brings(now)
}

// brings reports that a goodbye waits for what is on its way to the leader.
func (k *hooks) brings(now time.Duration) bool {
	return k.delivers() && (k.saw.back || now < k.partBy)
}

// ended cuts every call, and reports that none is under way any more.
func (k *hooks) ended() bool {
	for _, r := range k.results {
		delete(k.under, r.Seq)
	}
	k.results = k.results[:0]
	k.endAll()
	return len(k.under) == 0
}

// reboot forgets what the app was told under a lower boot, of which nothing is under
// way: another process may have run the same shards under the same epochs.
func (k *hooks) reboot(boot uint64) {
	k.boot, k.leased, k.since, k.stale = boot, false, 0, true
	clear(k.shards)
	k.un = unacquired{}
	k.delivery, k.kept = delivery{}, 0
	k.acquired, k.asked = make([]shardmap.Epoch, len(k.shards)), k.asked[:0]
}

// cutting counts the requests that are about to be cut because their shards move.
func (k *hooks) cutting() {
	for s := range k.shards {
		if h := &k.shards[s]; h.phase == HookReleasing {
			h.cut += k.o.App.Busy(shardmap.Shard(s))
		}
	}
}
