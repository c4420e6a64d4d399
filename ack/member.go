package ack

import (
	"time"

	"shardway/shardmap"
)

// answersKept is how many answers per node a Leader remembers: at one per
// heartbeat far more than any of its bounds looks back.
const answersKept = 64

// member is what a leader knows of one node, all of it heard in its own term.
type member struct {
	id     shardmap.NodeID
	beat   Heartbeat // the newest of the present boot; zero Boot: not heard in this term
	from   string
	closed bool // its connection broke and nothing came since

	firstHeard time.Duration // of the present boot
	lastHeard  time.Duration
	lastFresh  time.Duration // when a heartbeat last echoed a fresh answer
	streak     int           // fresh heartbeats in a row
	echoAt     time.Duration // when the newest echoed answer was sent; negative: none

	stranger    bool          // the present boot began without an answer of any leader
	leased      bool          // the present boot has had a lease
	rebooted    bool          // newer than a boot heard in this term
	lastGrant   time.Duration // of any boot; before the first: the election
	behindSince time.Duration // its applied epoch is below the committed one since; negative: it is not

	evidence    uint64 // the boot that crash evidence names; zero: none
	unknownGone bool   // evidence came before any heartbeat of this term
	evidenceAt  time.Duration
	removed     bool           // by an operator's word; a heartbeat voids it
	denied      shardmap.Epoch // no lease before it acknowledged this proposal
	wasSilent   bool           // for NoteSilent and NoteBack
	// healthySince is since when its app has been healthy; negative: it is not.
	healthySince time.Duration
	away         away
	releases     *Releases // the newest that came; nil: none
	digest       [32]byte  // theirs
	answers      [answersKept]sending
	answered     uint64 // how many answers were sent to it
}

// heard reports whether the node sent a heartbeat in this leader's term.
func (m *member) heard() bool { return m.beat.Boot != 0 }

// silent reports that no heartbeat came lately that shows both directions of
// the link to work. A boot just heard has as long to show it.
func (m *member) silent(now time.Duration, p Pace) bool {
	return now-max(m.lastFresh, m.firstHeard) > p.freshness()
}

// echoes reports that this leader's answers reach the node, as far as it has shown
// lately. Who was only heard is not silent yet, and shows nothing of them.
func (m *member) echoes(now time.Duration, p Pace) bool {
	return m.heard() && m.streak >= backStreak && !m.silent(now, p)
}

// crashed reports whether there is evidence that the node's present boot, or the
// one before this leader's election, is gone.
func (m *member) crashed() bool { return m.unknownGone || m.evidence != 0 && m.evidence >= m.beat.Boot }

// reset forgets what belonged to an earlier boot or process. What was granted to
// that one stays: its lease may still run. Only a higher boot shows that the
// process before it is gone: it holds the lock of the same data directory.
func (m *member) reset(now time.Duration, boot uint64) {
	m.rebooted = m.heard() && boot > m.beat.Boot
	m.firstHeard, m.streak, m.echoAt = now, 0, -1
	m.leased = false
	m.behindSince = -1
	m.answers = [answersKept]sending{}
}

// answerSent notes an answer. Numbers are unique in a term, so that no node confirms by
// what another was sent; how many are remembered of each node must not depend on how
// many others there are.
func (m *member) answerSent(now time.Duration, number uint64) {
	m.answers[m.answered%answersKept] = sending{number, now}
	m.answered++
}

// sentAt returns when the answer of this number was sent, and false if it is too
// old to be remembered or never was sent.
func (m *member) sentAt(number uint64) (time.Duration, bool) {
	for _, s := range m.answers {
		if number != 0 && s.number == number {
			return s.at, true
		}
	}
	return 0, false
}
