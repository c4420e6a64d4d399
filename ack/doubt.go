package ack

import (
	"slices"
	"strings"
	"time"
)

// How long a voter waits for what, while it misses its leader.
const (
	// missShare is how long a heartbeat waits for its answer until the leader is
	// missed, in tenths of a heartbeat, and missLeast that at least. It is bounded from
	// above: leases end from two heartbeats after the leader has stopped, and by then the
	// last voter of a majority must have sent the heartbeat that is not answered, which is
	// one after the stop at most, have waited for so long, and have elected another one.
	// And from below: a busy machine answers late.
	missShare = 8
	missLeast = 50 * time.Millisecond
	// believeBeats is for how long another's doubt counts, in heartbeats; who goes on
	// missing asks twice in that time.
	believeBeats = 1
	// despairBeats is after how many heartbeats a doubt is given up: Raft's own timeout
	// has come by then, and is all that can help.
	despairBeats = 10
	// standStagger is how much later the next in order stands: an election takes 10 ms,
	// on a slow disk some tens. Two that stand in one term split the vote, which costs an
	// election timeout and more.
	standStagger = 100 * time.Millisecond
	// standLeave is how long one has that says it stands: its term is over for it as soon as
	// that is written, and on a slow disk only that takes so long.
	standLeave = 250 * time.Millisecond
	// hearOut is how long it waits, at its turn, for those that have not replied to its
	// last question yet: one that is before it in order, or stands already, may be among
	// them, or one that has another term by now. Who is there replies within a few milliseconds.
	hearOut = 20 * time.Millisecond
	// askPause is the least time between two times that it asks.
	askPause = 10 * time.Millisecond
	// A leader that was replaced and speaks within livesWithin was there: the machines
	// are busier than this patience is made for. It doubles then, up to eight times what
	// it was, which is Raft's own; for calmFor after the last such election.
	livesWithin = time.Second
	calmFor     = time.Minute
	mostStrikes = 3
)

// LogEnd is where a server's log ends: the term and the index of its last entry.
type LogEnd struct{ Term, Index uint64 }

// newer reports that who has a log like this can be elected by one who has o's, and not
// the other way round.
func (l LogEnd) newer(o LogEnd) bool { return l.Term > o.Term || l.Term == o.Term && l.Index > o.Index }

// Missing is what a voter says when it is asked whether it misses its leader.
type Missing struct {
	// Term is that of the leader that it misses; zero: it misses none.
	Term uint64
	Log  LogEnd
	// Stands reports that it stands for election against it, or is about to.
	Stands bool
	// In is the term that its own Raft server is in, whomever it misses; zero: it is of a
	// program that does not say.
	In uint64
}

// Voter is what a Doubt reads of the node's own Raft server, anew each time.
type Voter interface {
	Raft
	// LogEnd returns where its log ends.
	LogEnd() LogEnd
	// Leader returns the server that it takes for the leader, or "".
	Leader() string
}

// DoubtOptions are what a Doubt stands on.
type DoubtOptions struct {
	Server    string        // the node's Raft server id
	Heartbeat time.Duration // of the node
	Raft      Voter
}

// Doubt decides when a voter stands for election because its leader is missed: a
// process that is stopped, or cut off, breaks no connection, and Raft's own timeout is
// longer than a lease. A voter that misses its leader asks the others whether they do,
// and once a majority does, the one with the newest log stands, by the lowest id if
// several have it, the next in order a little later (docs/internals/protocol.md, "A leader that is
// missed"). A false one costs a term. The caller's goroutine is the agent's.
type Doubt struct {
	o DoubtOptions

	looked time.Duration // when it was looked last
	awake  time.Duration // since when there was no gap between looks

	says    Missing       // what this node says now
	since   time.Duration // since when it misses that leader
	asked   time.Duration // when it asked last
	nextAsk time.Duration
	agreed  time.Duration // since when a majority misses it; negative: none does
	stood   uint64        // the term of the last leader against whom this node stood
	again   time.Duration // it does not stand again before, after it could not
	heard   map[string]hearsay
	elects  time.Duration // since when another is known to be in a later term; negative: none is

	lives   uint64        // the term of a leader that was missed, and that has spoken since; zero: none
	spoke   time.Duration // when
	strikes int           // how often one like that was replaced lately
	calm    time.Duration // until when that counts
}

// hearsay is what another voter has said of itself, and when it was asked.
type hearsay struct {
	Missing
	asked time.Duration
}

// NewDoubt returns the Doubt of a process that begins now.
func NewDoubt(o DoubtOptions, now time.Duration) *Doubt {
	return &Doubt{o: o, looked: now, awake: now, agreed: -1, elects: -1, heard: map[string]hearsay{}}
}

// Waiting is a node's oldest heartbeat that was not answered.
type Waiting struct {
	// Since is when it was sent, Term that of the leader that answered last, zero if none
	// did or no heartbeat waits.
	Since time.Duration
	Term  uint64
}

// Waiting returns for what answer the node waits.
func (a *Agent) Waiting() Waiting {
	since, ok := a.holder.waiting()
	if !ok {
		return Waiting{}
	}
	return Waiting{Since: since, Term: a.echoTerm}
}

// Look finds out whether the leader is missed, and returns the servers that are to be
// asked whether they miss it, and whether to stand for election now. It is due as often
// as the agent's. of is what its Agent waits for, zero of a node that leads itself.
func (d *Doubt) Look(now time.Duration, of Waiting) (ask []string, stand bool) {
	if now-d.looked > d.patience()/2 {
		d.awake = now // who was not there cannot tell what was not answered
	}
	d.looked = now
	d.judge(now)
	if !d.misses(now, of) {
		d.says, d.agreed = Missing{In: d.o.Raft.Term()}, -1
		return nil, false
	}
	if d.says.Term != of.Term {
		d.since, d.nextAsk, d.agreed, d.elects = now, now, -1, -1
		clear(d.heard)
	}
	if now-d.since > despairBeats*d.o.Heartbeat {
		return nil, false
	}
	d.says = Missing{Term: of.Term, Log: d.o.Raft.LogEnd(), Stands: d.stood == of.Term, In: of.Term}
	voters := d.o.Raft.Voters()
	if !slices.Contains(voters, d.o.Server) {
		return nil, false
	}
	if now >= d.nextAsk {
		d.asked, d.nextAsk = now, now+believeBeats*d.o.Heartbeat/2
		ask = d.others(voters)
	}
	return ask, d.stands(now, voters)
}

// patience is how long a heartbeat may wait for its answer.
func (d *Doubt) patience() time.Duration { return max(d.o.Heartbeat*missShare/10, missLeast) }

// misses reports that the leader of the present term has answered before, and does not
// any more. One that was just elected has answered nobody yet.
func (d *Doubt) misses(now time.Duration, of Waiting) bool {
	return of.Term != 0 && now-max(of.Since, d.awake) >= d.patience()<<d.strikes && of.Term == d.o.Raft.Term()
}

// others returns the voters that may miss the leader, too.
func (d *Doubt) others(voters []string) []string {
	leader := d.o.Raft.Leader()
	return slices.DeleteFunc(slices.Clone(voters), func(s string) bool { return s == d.o.Server || s == leader })
}

// stands reports that a majority misses the leader, and that it is this node's turn.
func (d *Doubt) stands(now time.Duration, voters []string) bool {
	with, silent, wait, leave := 1, 0, time.Duration(0), time.Duration(0)
	for _, v := range d.others(voters) {
		h := d.heard[v]
		if h.asked < d.asked {
			silent++ // it may have come to miss the leader since it said that it does not
		}
		if d.believes(now, h) {
			with++
			switch {
			case h.Stands:
				leave = standLeave
			case d.precedes(v, h.Log):
				wait += standStagger
			}
		}
	}
	if 2*with <= len(voters) {
		d.agreed = -1
		return false
	}
	if d.agreed < 0 {
		d.agreed = now
	}
	wait = max(wait, leave)
	if silent > 0 {
		wait += hearOut
	}
	// Who stands misses nobody any more once its term is written, and so do those that vote.
	elected := d.elects < 0 || now >= d.elects+standLeave
	if now < d.agreed+wait || now < d.again || !elected || d.says.Stands {
		return false
	}
	d.stood, d.says.Stands = d.says.Term, true
	return true
}

// Refused is told that its Raft server does not stand against the leader of a term, though
// the voter was to. While it is to be missed, that voter is one of those that may stand.
func (d *Doubt) Refused(now time.Duration, term uint64) {
	if d.stood == term {
		d.stood, d.again = 0, now+standStagger
		d.says.Stands = false
	}
}

// precedes reports that a server with such a log is before this one in the order of those
// that stand: who is first by the log is elected by all.
func (d *Doubt) precedes(server string, log LogEnd) bool {
	return log.newer(d.says.Log) || log == d.says.Log && strings.Compare(server, d.o.Server) < 0
}

// believes reports that another's doubt counts: it misses this very leader, and has said
// so lately.
func (d *Doubt) believes(now time.Duration, h hearsay) bool {
	return h.Term == d.says.Term && now-h.asked <= believeBeats*d.o.Heartbeat
}

// Heard takes what a server has replied that was asked at the given time. Only a reply
// shows how old it can be. One to what was asked for an earlier doubt says nothing.
func (d *Doubt) Heard(asked time.Duration, server string, m Missing) {
	if asked >= d.since && asked >= d.heard[server].asked {
		d.heard[server] = hearsay{m, asked}
		if m.In > d.says.Term && d.elects < 0 {
			d.elects = asked
		}
	}
}

// Asked is told, between two Looks, that another server asks: so that one misses its
// leader now, and if this node does, too, it asks in turn.
func (d *Doubt) Asked(now time.Duration, server string) {
	if d.says.Term != 0 && !d.believes(now, d.heard[server]) {
		d.nextAsk = min(d.nextAsk, d.asked+askPause)
	}
}

// Lives is told that the leader of a term, which this node misses or has missed, speaks.
func (d *Doubt) Lives(now time.Duration, term uint64) { d.lives, d.spoke = term, now }

// judge has patience grow if a leader that lives was replaced.
func (d *Doubt) judge(now time.Duration) {
	if now >= d.calm {
		d.strikes = 0
	}
	switch {
	case d.lives == 0:
	case d.o.Raft.Term() > d.lives:
		d.strikes, d.calm, d.lives = min(d.strikes+1, mostStrikes), now+calmFor, 0
	case now-d.spoke > livesWithin:
		d.lives = 0
	}
}

// Says returns what this node says of itself, as of the last Look.
func (d *Doubt) Says() Missing { return d.says }
