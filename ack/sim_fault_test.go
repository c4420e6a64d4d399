package ack_test

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// simMix defines the schedules: the size of the cluster, its faults, and their frequency.
type simMix struct {
	name      string
	hosts     [2]int // least and most
	takeovers []ack.Takeover
	faults    [2]int // least and most
	kinds     []weighted
	// gaps are the shortest and the longest time between two faults.
	gaps       [2]time.Duration
	stuck      int // in a thousand: one node stays broken after all else has healed
	lateSubmit int
	astray     int  // in a thousand: heartbeats that go to some other node
	founders   int  // how many vote in the beginning; zero: it is drawn
	pauses     int  // in a thousand: clusters with rebalance mode stop-the-world, more than one in five
	twins      int  // in a hundred: clusters that may have two processes under one id
	hooks      int  // in a hundred: clusters whose apps have hooks
	caches     int  // in a hundred: clusters whose apps have no hooks and cache
	instances  int  // in a hundred: clusters whose nodes have several app instances
	standbys   int  // in a hundred: clusters in which shards have standbys
	services   int  // in a hundred: clusters whose nodes run several services
	bootstraps int  // in a hundred: clusters that are not founded yet, and meet faults at once
	lone       bool // one votes, permanently
	reaches    int  // in a hundred: clusters whose nodes report which nodes they cannot reach
	suspicions int  // in a hundred: clusters whose voters ask each other whether they miss their leader
	// quiet faults may not move any shard.
	quiet bool
}

// weighted is a fault with its weight.
type weighted struct {
	weight int
	name   string
	do     func(w *world) bool // false: it found no host for the fault
}

// kinds parses a list of faults and their weights.
func kinds(list string) []weighted {
	all := map[string]func(w *world) bool{
		"kill": faultCrash, "wipe": faultWipe, "pause": faultPause, "isolate": faultIsolate, "one-way": faultOneWay, "halves": faultHalves,
		"bridge": faultBridge, "pair": faultPair, "noise": faultNoise, "stall": faultStall, "no-log": faultNoLog, "two-faced": faultTwoFaced, "elect": faultElect, "depose": faultDepose,
		"storm": faultStorm, "forge": faultForge, "leave": faultLeave, "sick": faultUnhealthy, "remove": faultRemove, "hold": faultHold,
		"slow-cut": faultSlowCut, "deaf": faultUnresponsive, "deaf-spare": faultUnresponsiveSpare, "compact": faultCompact, "join": faultJoin, "weight": faultWeight, "laggard": faultLaggard,
		"trap": faultTrap, "blind": faultBlind, "straggler": faultStraggler, "old-boot": faultOldBoot, "echoes": faultEchoes, "convert": faultConvert, "late-barrier": faultLateBarrier,
		"last-words": faultLastWords, "late-answers": faultLateAnswers, "late-evidence": faultLateEvidence, "late-commit": faultLateCommit,
		"disk": faultDisk, "hang": faultHang, "power": faultPower, "outage": faultOutage, "split": faultSplit, "twin": faultDuplicate,
		"demote": faultDemote, "expel": faultExpel, "reconfigure": faultReconfigure, "trail": faultTrail,
		"two-gone": faultTwoGone, "retime-elect": faultTimingElect, "retime-halves": faultTimingHalves,
		"app-restart": faultAppRestart, "app-ill": faultAppIll, "app-hangs": faultAppHangs, "no-deliver": faultNoDeliver, "safe-drain": faultSafeDrain,
		"retime": faultTiming, "retime-cut": faultTimingCut, "retime-lost": faultTimingLost, "retime-takeover": faultTimingTakeover,
		"policy": faultPolicy, "mark": faultMark, "mark-restart": faultMarkRestart, "mark-drain": faultMarkDrain, "policy-elect": faultPolicyElect, "pause-loss": faultPauseLoss,
		"role": faultRole, "role-restart": faultRoleRestart,
		"restart": faultRestart, "restart-elect": faultRestartElect, "restart-join": faultRestartJoin, "in-place": faultInPlace, "restart-wipe": faultRestartWipe,
		"sick-most": faultUnhealthyMost, "flap": faultFlap, "flap-loss": faultFlapLoss,
		"keys":         faultKeys,
		"instance-die": faultInstanceDie, "instance-hang": faultInstanceHang, "instance-sick": faultInstanceUnhealthy, "instance-roll": faultInstanceRoll,
		"service-add": faultServiceAdd, "service-remove": faultServiceRemove, "service-list": faultServiceList, "service-retire": faultServiceRetire,
		"instance-drain": faultInstanceDrain, "instance-list": faultInstanceList,
		"leader-hangs": faultLeaderHangs, "doze": faultDoze, "cache-restart": faultCacheRestart, "app-port": faultAppPort,
		"spoke": faultSpoke, "spoke-flap": faultSpokeFlap, "star": faultStar,
	}
	var out []weighted
	for item := range strings.SplitSeq(list, ", ") {
		var k weighted
		if _, err := fmt.Sscanf(item, "%s %d", &k.name, &k.weight); err != nil || all[k.name] == nil {
			panic(fmt.Sprintf("no fault %q", item))
		}
		k.do = all[k.name]
		out = append(out, k)
	}
	return out
}

// pick chooses a detail of a fault: from the tape, if there is one.
func (w *world) pick(k int) int {
	if w.faults == nil {
		return w.n(k)
	}
	if len(w.faults) == 0 {
		return 0
	}
	b := int(w.faults[0])
	w.faults = w.faults[1:]
	return b % k
}

// faultDuration returns how long a fault lasts: mostly about a lease, or about the time of a
// takeover.
func (w *world) faultDuration() time.Duration {
	switch w.pick(4) {
	case 0:
		return w.span(20*time.Millisecond, 250*time.Millisecond)
	case 1:
		return w.span(250*time.Millisecond, 900*time.Millisecond)
	case 2:
		return w.deadAfter() + w.span(-200*time.Millisecond, 900*time.Millisecond)
	}
	return w.span(400*time.Millisecond, 3*w.deadAfter())
}

func (m *simMix) setup(w *world) {
	w.pace = ack.Pace{Heartbeat: 100 * time.Millisecond, DrainTimeout: 300 * time.Millisecond}
	timing := ack.Timing{Lease: 500 * time.Millisecond, DeadAfter: 1200 * time.Millisecond, RebalanceMode: ack.RebalanceIncremental}
	switch w.n(10) {
	case 0:
		w.pace, timing = ack.DefaultPace(), ack.DefaultTiming()
	case 1:
		w.pace.RestartGrace = w.span(100*time.Millisecond, time.Second)
	}
	timing.Takeover = m.takeovers[w.n(len(m.takeovers))]
	if w.n(1000) < max(m.pauses, 200) {
		timing.RebalanceMode = ack.RebalanceStopTheWorld
	}
	w.shards = 3 + w.n(5)
	w.newest = make([]shardmap.Epoch, w.shards)
	w.lateSubmit = m.lateSubmit
	n := m.hosts[0] + w.n(m.hosts[1]-m.hosts[0]+1)
	w.voters = min(n, 3)
	w.removeDeadAfter = w.span(time.Second, 9*time.Second)
	if n == 5 && w.n(2) == 0 {
		w.voters = 5
	}
	if m.lone {
		w.voters = 1
	}
	founders := w.voters
	if w.n(4) == 0 {
		founders = 1
	}
	if m.founders > 0 {
		founders = m.founders
	}
	birth, _, err := ack.NewState().Apply(2, 1, ack.EncodeBootstrap("sim", w.shards, timing))
	if err != nil {
		w.fail("bootstrap: %v", err)
	}
	w.birth, w.truth = birth, birth
	w.suspicions = m.suspicions > 0 && w.n(100) < m.suspicions
	w.reaches = m.reaches > 0 && w.n(100) < m.reaches
	w.populate(n, founders)
	if m.instances > 0 && w.n(100) < m.instances {
		w.addInstances()
	}
	if m.services > 0 && w.n(100) < m.services {
		w.addServices()
	}
	if m.standbys > 0 && w.n(100) < m.standbys {
		w.replicas, w.spreadZones = map[string]int{ack.DefaultService: w.n(3), "chat": 1}, w.n(2) == 0
	}
	if m.hooks > 0 && w.n(100) < m.hooks {
		w.addHookApps()
	}
	if m.caches > 0 && w.n(100) < m.caches {
		w.addCachingApps()
	}
	if w.n(100) < m.bootstraps {
		w.initEmpty()
	} else if w.n(100) < m.twins {
		w.addDuplicate()
	}
}

// populate creates the hosts and disks of a new cluster.
func (w *world) populate(n, founders int) {
	first := &simConf{}
	w.first = first
	for i := range n {
		h := &host{w: w, i: i, id: shardmap.NodeID('a' + rune(i)), downFrom: 0, rate: w.clockRate(), weight: 1, keys: firstKeys, loaded: map[string]bool{firstKeys: true}}
		w.hosts = append(w.hosts, h)
		h.flags = w.flagsOf(h)
		h.roles = [][]string{{"app"}, {"app", "db"}, {"db"}, nil}[i%4]
		h.newDisk()
		if w.n(6) == 0 {
			h.weight = uint32(1 + w.n(3))
		}
		if i >= 2 {
			h.gateway = w.n(8) == 0
			h.absent = !h.gateway && w.n(6) == 0
		}
		switch {
		case h.absent:
		case len(first.voters) < founders:
			first.voters = append(first.voters, h.server())
		default:
			first.others = append(first.others, h.server())
		}
	}
	for _, h := range w.hosts {
		if !h.absent {
			h.disk.initFounder(first, 2)
		}
	}
}

// The rates of clocks, in millionths: any two differ by less than a tenth of the
// slower one, and by almost as much.
const (
	slowClock = 954_000
	fastClock = 1_049_000
)

// clockRate returns the random rate of a clock. Every other clock has the minimum or maximum
// rate.
func (w *world) clockRate() int64 {
	switch w.n(4) {
	case 0:
		return slowClock
	case 1:
		return fastClock
	}
	return slowClock + int64(w.n(fastClock-slowClock+1))
}

// play runs one schedule: a cluster forms, faults occur, faults stop, and then it must serve
// again.
func play(s simSetup, cover *coverage) (w *world) {
	w = newWorld(s, cover)
	defer func() {
		for _, end := range w.unfinished {
			end()
		}
		if r := recover(); r != nil {
			w.fail("panic: %v", r)
			if w.tracing {
				w.trace = append(w.trace, string(debug.Stack()))
			}
		}
	}()
	for _, h := range w.hosts {
		if !h.absent {
			h.start()
		}
	}
	w.after(0, w.hosts[0].proc, func() { w.hosts[0].proc.campaign("the first") })
	if !w.birth.Bootstrapped() {
		w.run(w.span(0, 100*time.Millisecond), nil)
	} else if !w.run(30*time.Second, func() bool { return w.settled(50 * time.Millisecond) }) {
		w.fail("progress: the cluster never formed: %s", w.describe())
		return w
	}
	w.quiet, w.astray = s.mix.quiet, s.mix.astray
	// A fault without a suitable host is drawn again, but not forever: a tape may be at its end.
	faults := s.mix.faults[0] + w.pick(s.mix.faults[1]-s.mix.faults[0]+1)
	hit := func() {
		for tries := 0; w.faulted < faults && tries < 40*faults && w.failure == ""; tries++ {
			w.fault()
		}
	}
	hit()
	if w.faulted < leastFaults && w.failure == "" { // no node runs that a fault could hit
		for _, h := range w.hosts {
			w.keepUp(h)
		}
		hit()
	}
	if w.failure != "" {
		return w
	}
	w.quiet = false
	w.heal()
	if !w.run(w.now+90*time.Second, func() bool {
		return w.settled(250*time.Millisecond) && w.steps >= leastSteps && !w.quarantinesLast() && !w.gradualDrainsLast() && w.keysSettled() && w.rolesSettled() && w.servicesSettled()
	}) {
		w.fail("progress: faults have stopped, and: %s", w.describe())
	}
	cover.played(w)
	return w
}

// fault injects a random fault, counts it if it had an effect, and lets some time pass.
func (w *world) fault() {
	total := 0
	for _, k := range w.mix.kinds {
		total += k.weight
	}
	at := w.pick(total)
	for _, k := range w.mix.kinds {
		if at -= k.weight; at < 0 {
			w.logf("fault: %s", k.name)
			if k.do(w) {
				w.faulted++
			}
			break
		}
	}
	lo, hi := w.mix.gaps[0], w.mix.gaps[1]
	switch w.pick(3) {
	case 0:
		hi = lo + (hi-lo)/50
	case 1:
		hi = lo + (hi-lo)/5
	}
	w.run(w.now+w.span(lo, hi), nil)
}

// heal ends all faults except, sometimes, one: a node that stays broken must not prevent the
// others from serving.
func (w *world) heal() {
	w.logf("faults stop")
	w.healing = true
	w.loss, w.dup, w.slow, w.lateSubmit, w.astray = 0, 0, 0, 0, 0
	for i := range w.link {
		for j := range w.link {
			w.link[i][j], w.noLog[i][j], w.stalled[i][j] = true, false, 0
		}
	}
	w.removeCopy()
	stuck := w.stickOne()
	for _, h := range w.hosts {
		h.pauseAt, h.slowCut = pauseNowhere, false
		h.restoreDisk()
		h.healInstances()
		for _, app := range h.apps() {
			app.ill, app.down = appIllness{}, 0
		}
		for _, cache := range h.caches() {
			cache.downUntil = 0
		}
		if h == stuck {
			continue
		}
		h.deaf, h.mute, h.noDeliver, h.falls = h.deafForGood, false, false, 0
		h.becomeHealthy()
		h.resume()
		w.hold(h, false)
		if p := h.proc; p != nil && p.leaving {
			p.leaveBy = min(p.leaveBy, w.now+3*time.Second)
		}
		w.keepUp(h)
	}
	w.sameKeys()
	w.operate()
}

// keepUp restarts a process whenever it has ended.
func (w *world) keepUp(h *host) {
	if h.proc == nil && !h.lost && !h.absent {
		h.start()
	}
	w.after(w.span(50*time.Millisecond, 400*time.Millisecond), nil, func() { w.keepUp(h) })
}

// stickOne breaks one node permanently, if the other voters are a quorum.
func (w *world) stickOne() *host {
	if w.n(1000) >= w.mix.stuck {
		return nil
	}
	h := w.hosts[w.n(len(w.hosts))]
	if h.absent || h.gateway || h.twin != nil || !w.toleratesLossOf(h) {
		return nil
	}
	if len(w.newestConf().voters) < w.voters {
		return nil // it might become one of two voters
	}
	if h.proc == nil {
		h.start()
	}
	if h.proc.closing {
		return nil // it is on its way out
	}
	h.resume()
	h.proc.leaving = false
	if w.n(4) == 0 {
		h.becomeUnhealthy()
	}
	what := w.n(8)
	w.cover.stuck[what]++
	w.logf("%s stays %s", h.id, [...]string{"held", "deaf", "mute", "stopped", "down", "cut off", "unheard", "unreachable"}[what])
	switch what {
	case 0:
		w.hold(h, true)
	case 1:
		h.deaf = true
	case 2:
		h.mute = true
	case 3:
		h.stop(1000*time.Hour, "for good")
	case 4:
		h.crash()
		h.lost = true
	default:
		h.deaf = true
		for j := range w.link {
			w.link[h.i][j] = what == 7
			w.link[j][h.i] = what == 6
		}
	}
	return h
}

// toleratesLossOf reports whether the other voters are a quorum with their disks, with any
// possible configuration.
func (w *world) toleratesLossOf(h *host) bool {
	if !w.hasQuorumWithout(w.newestConf().voters, h) {
		return false
	}
	for _, o := range w.hosts {
		if o.proc != nil && o.proc.writing != nil {
			return false // a configuration, perhaps
		}
		if c := o.disk.conf; len(c.voters) > 0 && !w.hasQuorumWithout(c.voters, h) {
			return false
		}
	}
	return true
}

// hasQuorumWithout reports whether a quorum of these voters have their disks. It does not count
// the disk of the host without, nor voters that are no voters by their own log: they do not
// campaign, and grant no vote to a server with a shorter log.
func (w *world) hasQuorumWithout(voters []string, without *host) bool {
	n := 0
	for _, o := range w.hosts {
		abstains := len(o.disk.conf.voters) > 0 && !o.disk.conf.votes(o.server())
		if o != without && !o.copied && !abstains && slices.Contains(voters, o.server()) {
			n++
		}
	}
	return 2*n > len(voters)
}

// newestConf returns the latest committed configuration.
func (w *world) newestConf() *simConf {
	best := w.first
	for _, e := range slices.Backward(w.committed) {
		if e != nil && e.conf != nil {
			return e.conf
		}
	}
	return best
}

// hold stops the state machine of a node from applying entries, or only commits, or resumes
// it.
func (w *world) hold(h *host, on bool) {
	h.holdLog, h.holdAt = on, false
	if on && w.n(3) == 0 {
		h.holdLog, h.holdAt = false, true
	}
	if !on && h.proc != nil {
		h.proc.applySoon()
	}
}
