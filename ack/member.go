package ack

import (
	"time"

	"shardway/shardmap"
)

// answersKept is how many answers per node a Leader remembers: at one per
// heartbeat far more than any of its bounds looks back.
const maxAnswers = 64

// member is what a leader knows of one node, all of it heard in its own term.
type member struct {
	id        shardmap.NodeID
	heartbeat Heartbeat // the newest of the present boot; zero Boot: not heard in this term
	addr      string
	closed    bool // its connection broke and nothing came since

	firstHeard    time.Duration // of the present boot
	lastHeard     time.Duration
	lastFreshEcho time.Duration // when a heartbeat last echoed a fresh answer
	freshStreak   int           // fresh heartbeats in a row
	echoedAt      time.Duration // when the newest echoed answer was sent; negative: none

	noInitialEcho bool          // the present boot began without an answer of any leader
	hadLease      bool          // the present boot has had a lease
	rebooted      bool          // newer than a boot heard in this term
	lastGrant     time.Duration // of any boot; before the first: the election
	behindSince   time.Duration // its applied epoch is below the committed one since; negative: it is not

	crashedBoot      uint64 // the boot that crash evidence names; zero: none
	crashedUnheard   bool   // evidence came before any heartbeat of this term
	crashSeenAt      time.Duration
	removed          bool           // by an operator's word; a heartbeat voids it
	leaseDeniedUntil shardmap.Epoch // no lease before it acknowledged this proposal
	wasSilent        bool           // for EventSilent and EventBack
	// healthySince is since when its app has been healthy; negative: it is not.
	healthySince   time.Duration
	restart        restartTimes
	releases       *Releases // the newest that came; nil: none
	releasesDigest [32]byte  // theirs
	sentAnswers    [maxAnswers]sentMessage
	answerCount    uint64 // how many answers were sent to it
}

// heard reports whether the node sent a heartbeat in this leader's term.
func (m *member) heard() bool { return m.heartbeat.Boot != 0 }

// silent reports that no heartbeat came lately that shows both directions of
// the link to work. A boot just heard has as long to show it.
func (m *member) silent(now time.Duration, p Pace) bool {
	return now-max(m.lastFreshEcho, m.firstHeard) > p.freshness()
}

// echoes reports that this leader's answers reach the node, as far as it has shown
// lately. Who was only heard is not silent yet, and shows nothing of them.
func (m *member) linkWorks(now time.Duration, p Pace) bool {
	return m.heard() && m.freshStreak >= requiredStreak && !m.silent(now, p)
}

// crashed reports whether there is evidence that the node's present boot, or the
// one before this leader's election, is gone.
func (m *member) crashed() bool {
	return m.crashedUnheard || m.crashedBoot != 0 && m.crashedBoot >= m.heartbeat.Boot
}

// reset forgets what belonged to an earlier boot or process. What was granted to
// that one stays: its lease may still run. Only a higher boot shows that the
// process before it is gone: it holds the lock of the same data directory.
func (m *member) reset(now time.Duration, boot uint64) {
	m.rebooted = m.heard() && boot > m.heartbeat.Boot
	m.firstHeard, m.freshStreak, m.echoedAt = now, 0, -1
	m.hadLease = false
	m.behindSince = -1
	m.sentAnswers = [maxAnswers]sentMessage{}
}

// answerSent notes an answer. Numbers are unique in a term, so that no node confirms by
// what another was sent; how many are remembered of each node must not depend on how
// many others there are.
func (m *member) answerSent(now time.Duration, number uint64) {
	m.sentAnswers[m.answerCount%maxAnswers] = sentMessage{number, now}
	m.answerCount++
}

// sentAt returns when the answer of this number was sent, and false if it is too
// old to be remembered or never was sent.
func (m *member) answerSentAt(number uint64) (time.Duration, bool) {
	for _, s := range m.sentAnswers {
		if number != 0 && s.number == number {
			return s.at, true
		}
	}
	return 0, false
}
