package ack_test

import (
	"fmt"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// host is a machine: a disk, a clock, and a process if one runs.
type host struct {
	w    *world
	i    int
	id   shardmap.NodeID
	disk *simDisk
	rate int64 // of its clock, in millionths
	proc *proc
	app  *simApp // with hooks; nil: it has none
	// cache is an app without hooks that caches; nil means none.
	cache *simCache
	instanceFaults
	serviceFaults

	disks     int              // how many it has had
	stopped   bool             // SIGSTOP
	stoppedAt time.Duration    // when it was stopped last
	resumedAt time.Duration    // when it went on last after so long that it must notice
	briefStop [2]time.Duration // start and end of the last stop that was too short to notice
	deferred  []event          // events that wait for SIGCONT
	pauseAt   pausePoint
	pauseFor  time.Duration
	downFrom  time.Duration // since when no process runs; negative: one does
	late      int           // heartbeats of the last process that leaders have received
	lateBeat  uint64        // the newest of these

	absent      bool // takes no part until it joins
	gateway     bool
	unhealthy   bool
	failing     bool // the last check of its app failed
	refused     bool // then: the connection was refused
	falls       uint32
	holdLog     bool // its state machine applies nothing
	holdAt      bool // its state machine stops at the next commit
	slowCut     bool // requests that it cuts still count for a while
	deaf        bool // answers to its heartbeats get lost
	deafForGood bool // also after the faults
	mute        bool // its heartbeats get lost
	noDeliver   bool // its releases are lost
	lost        bool // never starts again
	weight      uint32
	roles       []string      // of its next process
	speaks      uint64        // the highest boot that was granted a lease, or announced to leave
	diskSlow    time.Duration // the longest that a write takes; zero: none takes any time
	diskFails   int           // in a thousand: writes that fail
	diskHangs   time.Duration // until when no write ends
	twin        *host         // the other one with its id
	copied      bool          // its disk is a copy of its twin's
	copyEnded   time.Duration // when it was one last; zero: it was none
	flags       ack.Timing    // what it was started with, which counts for nothing
	keys        string        // the key configuration that it has loaded
	loaded      map[string]bool
}

// pausePoint is a point in its own code at which a process is paused.
type pausePoint uint8

const (
	pauseNowhere     pausePoint = iota
	pauseBeforeTerm             // the leader loop, between reading clock and term
	pauseAfterTerm              // the leader loop, between the term and the message
	pauseBeforeStep             // the leader loop, after reading the clock
	pauseBeforeWrite            // a request, between its second check and the first byte
	pauseAfterAdmit             // a request, between admission and its second check
	pauseInAgent                // the agent, after reading the clock
	pausePoints
)

func (h *host) server() string { return h.disk.server }

// newDisk gives the host an empty disk.
func (h *host) newDisk() {
	h.disks++
	server := fmt.Sprintf("%s/%d", h.id, h.disks)
	if h.w.plant == plantServerIsNode {
		server = string(h.id)
	}
	h.disk = &simDisk{server: server, conf: &simConf{}, baseConf: &simConf{}, snapConf: &simConf{}}
}

// proc is one process of a node.
type proc struct {
	w      *world
	h      *host
	disk   *simDisk
	dead   bool
	nonce  uint64
	origin time.Duration // true time at which its clock showed zero

	roles []string

	// Raft.
	leader         bool
	hint           int // the host that its heartbeats go to; -1: none
	follows        int // the host that leads, as far as Raft knows now
	candidacy      *candidacy
	writing        *writing
	waiting        []func() // for the end of the write
	isolated       bool     // it leads, its disk hangs, and it is cut off for that
	contact        time.Duration
	patience       time.Duration
	quorumPatience time.Duration
	electedAt      time.Duration
	peers          [simHosts]peerView
	commit         uint64
	raftApplied    uint64
	applying       bool
	nudged         bool
	fsm            *ack.State
	lead           *leaderLoop

	// Heartbeat connections, and whose broke.
	conns  [simHosts]*proc
	broken [simHosts]brokenBeats

	simAgent
	probes
	appSide
	watches  []*agent.AppWatch // by instance; empty if the app does not cache
	selector agent.InstanceSelector
}

// brokenBeats is a broken heartbeat connection. The nonce of the process is known only if it
// sent heartbeats itself.
type brokenBeats struct{ boot, nonce uint64 }

// start starts a process from the content of the disk.
func (h *host) start() {
	w := h.w
	if h.proc != nil {
		panic("a host starts a second process")
	}
	h.disk.boot++
	h.falls = 0
	if w.plant == plantRandomBoot {
		h.disk.boot = 1 + w.dice.Uint64N(1<<40)
	}
	p := &proc{w: w, h: h, disk: h.disk, origin: w.now, nonce: w.dice.Uint64(), hint: -1, follows: nobody, contact: w.now}
	p.patience = w.span(400*time.Millisecond, 900*time.Millisecond)
	p.quorumPatience = w.span(250*time.Millisecond, 900*time.Millisecond)
	h.proc, h.downFrom, h.deferred, h.stopped, h.pauseAt = p, -1, nil, false, pauseNowhere
	p.fsm = w.birth
	if h.disk.snap != nil {
		p.fsm = p.restored(h.disk.snap)
	}
	p.commit, p.raftApplied = h.disk.snapAt, h.disk.snapAt
	p.initAgent()
	h.readInstanceList()
	// Not its first start, and the log went on without it.
	if h.disk.boot > 1 && h.disk.last() < w.truth.Index() {
		w.cover.oldStarts++
	}
	w.logf("%s starts: boot %d, server %s, term %d, log to %d, state of map %d", h.id, h.disk.boot, h.server(), h.disk.term, h.disk.last(), p.fsm.Committed().Epoch())
	w.forgetBusy(h.id)
	w.after(w.span(0, 60*time.Millisecond), p, p.raftTimer)
	p.watchApp()
	w.after(0, p, p.tick)
	if w.reaches {
		w.after(0, p, p.probe)
	}
	w.after(w.span(0, 50*time.Millisecond), p, p.arrivals)
}

// clock reads the process's clock.
func (p *proc) clock() time.Duration { return p.clockAt(p.w.now) }

func (p *proc) clockAt(t time.Duration) time.Duration {
	return time.Duration(int64(t-p.origin) * p.h.rate / 1_000_000)
}

// crash kills the process. Processes with a heartbeat connection to it may detect that.
func (h *host) crash() {
	p := h.proc
	if p == nil {
		return
	}
	w := h.w
	w.logf("%s is killed", h.id)
	w.cover.crashes++
	h.endProcess()
	for j, q := range p.conns {
		if q == nil || q.dead || q.conns[h.i] != p || !w.link[h.i][j] {
			continue
		}
		q.conns[h.i] = nil
		w.after(w.span(200*time.Microsecond, 8*time.Millisecond), q, func() { q.connBroke(p) })
	}
}

// endProcess ends the process.
func (h *host) endProcess() {
	p := h.proc
	p.tearWrite()
	p.leavesApp()
	p.dead = true
	p.reqs = nil
	h.proc, h.downFrom, h.late, h.lateBeat = nil, h.w.now, 0, 0
	h.stopped, h.deferred = false, nil
}

// wipe replaces the disk of a node whose process is down.
func (h *host) wipe() {
	h.newDisk()
	h.w.cover.wipes++
	h.w.logf("%s gets an empty disk", h.id)
}

// stop sends SIGSTOP, and resumes the process after d.
func (h *host) stop(d time.Duration, where string) {
	if h.proc == nil || h.stopped {
		return
	}
	h.stopped, h.stoppedAt = true, h.w.now
	h.w.cover.pauses++
	p := h.proc
	p.stoppedOnce, p.looked = true, false
	h.w.logf("%s is stopped for %v %s", h.id, d.Round(time.Millisecond), where)
	h.w.after(d, nil, func() {
		if h.proc == p {
			h.resume()
		}
	})
}

// resume sends SIGCONT. Deferred events happen soon, in any order.
func (h *host) resume() {
	if !h.stopped {
		return
	}
	w := h.w
	h.stopped = false
	if w.now-h.stoppedAt > noticed {
		h.resumedAt = w.now
	} else {
		h.briefStop = [2]time.Duration{h.stoppedAt, w.now}
	}
	w.logf("%s goes on", h.id)
	todo := h.deferred
	h.deferred = nil
	for _, e := range todo {
		w.after(w.span(0, resumeSpread), e.proc, e.fn)
	}
	w.checkServing(h.proc)
}

// stopAt pauses the process if a pause is planned at this point, and continues with rest when
// it is resumed. It returns true if it paused.
func (p *proc) stopAt(at pausePoint, rest func()) bool {
	h := p.h
	if h.pauseAt != at {
		return false
	}
	h.pauseAt = pauseNowhere
	if at == pauseBeforeWrite {
		p.w.cover.pausedWrites++
	}
	h.stop(h.pauseFor, [...]string{"", "before it reads its term", "after it read its term", "before a step", "before a write", "after an admission", "in its agent"}[at])
	h.deferred = append(h.deferred, event{proc: p, fn: rest})
	return true
}

// connect records a heartbeat connection from p to the leader q.
func (p *proc) connect(q *proc) {
	if p != q {
		p.conns[q.h.i], q.conns[p.h.i] = q, p
	}
}

// connBroke reports that the process at the other end of a heartbeat connection is gone.
func (p *proc) connBroke(other *proc) {
	w := p.w
	i := other.h.i
	broke := brokenBeats{boot: other.bootNow()}
	if p.leader {
		broke.nonce = other.nonce
	}
	if was := p.broken[i]; broke.boot > was.boot || broke.boot == was.boot && broke.nonce != 0 {
		p.broken[i] = broke
	}
	if l := p.lead; l != nil {
		l.receive(leader.ConnClosed{Node: other.h.id, Nonce: other.nonce}, origin{})
		if other.goodbye {
			return
		}
	}
	w.after(w.span(time.Millisecond, 20*time.Millisecond), p, func() { p.redial(other.h, 3) })
	if p.hint == i && !p.leader && p.isVoter() {
		w.after(w.span(5*time.Millisecond, 150*time.Millisecond), p, func() {
			if p.hint == i && !p.leader && other.h.proc == nil && p.candidacy == nil {
				p.startCampaign("the leader's process is gone", true, w.n(2) == 0)
			}
		})
	}
}

// redial checks whether a process listens at the address. If none does, the leader loop gets
// crash evidence.
func (p *proc) redial(h *host, tries int) {
	w := p.w
	l := p.lead
	if l == nil || l.over || p.broken[h.i].boot == 0 {
		return
	}
	if !w.link[p.h.i][h.i] || !w.link[h.i][p.h.i] {
		if tries > 0 {
			w.after(w.span(5*time.Millisecond, 50*time.Millisecond), p, func() { p.redial(h, tries-1) })
		}
		return
	}
	if h.proc != nil || h.twin != nil && h.twin.proc != nil {
		return // it speaks: a redial goes to where gossip shows the node
	}
	broke, began := p.broken[h.i], p.clock()
	late := w.span(0, 5*time.Millisecond)
	if w.perMille(w.slow) {
		late = w.span(10*time.Millisecond, time.Second)
		if w.slower {
			late += w.deadAfter() // by then another disk may have the name
		}
	}
	w.after(late, p, func() {
		w.logf("%s has evidence that boot %d of %s is gone", p.h.id, broke.boot, h.id)
		if l = p.lead; l != nil { // perhaps the next one
			l.receive(leader.CrashEvidence{Node: h.id, Boot: broke.boot, Nonce: broke.nonce, RedialStartedAt: began}, origin{})
		}
	})
}

// serverOf returns the server of a node in the configuration, or "".
func (c *simConf) serverOf(id shardmap.NodeID) string {
	for _, s := range slices.Concat(c.voters, c.others) {
		if nodeOfServer(s) == id {
			return s
		}
	}
	return ""
}

func nodeOfServer(server string) shardmap.NodeID { return shardmap.NodeID(server[:1]) }
