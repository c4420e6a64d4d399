package ack

import (
	"time"

	"shardway/shardmap"
)

// maxAnswers is how many answers to each node a leader remembers. With one per heartbeat, that
// is far more than any limit requires.
const maxAnswers = 64

// member is what a leader knows about one node, all received in its own term.
type member struct {
	id        shardmap.NodeID
	heartbeat Heartbeat // the newest of the present boot; Boot zero means none in this term
	addr      string
	closed    bool // its connection broke, and nothing arrived since

	firstHeard    time.Duration // of the present boot
	lastHeard     time.Duration
	lastFreshEcho time.Duration // when a heartbeat last echoed a recent answer
	freshStreak   int           // number of such heartbeats in a row
	echoedAt      time.Duration // when the newest echoed answer was sent; negative means none

	noInitialEcho bool          // the first heartbeat of the present boot echoed no answer
	hadLease      bool          // the present boot has had a lease
	rebooted      bool          // the present boot replaced another one in this term
	lastGrant     time.Duration // of any boot; initially the election
	behindSince   time.Duration // since when its applied epoch is below the committed one; negative means that it is not

	crashedBoot      uint64 // the boot that crash evidence names; zero means none
	crashedUnheard   bool   // the evidence came before any heartbeat of this term
	crashSeenAt      time.Duration
	removed          bool           // by an operator; any heartbeat resets it
	leaseDeniedUntil shardmap.Epoch // no lease before it has acknowledged this proposal
	wasSilent        bool           // for EventSilent and EventBack
	// healthySince is since when its app has been healthy; negative means that it is not.
	healthySince   time.Duration
	restart        restartTimes
	releases       *Releases // the newest that arrived; nil means none
	releasesDigest [32]byte  // of releases
	sentAnswers    [maxAnswers]sentAnswer
	answerCount    uint64 // number of answers sent to it
}

// hasHeartbeat reports whether the node has sent a heartbeat in the term of this leader.
func (m *member) hasHeartbeat() bool { return m.heartbeat.Boot != 0 }

// isSilent reports whether no recent heartbeat proves that both directions of the link work. A
// new boot gets the same time for its first proof.
func (m *member) isSilent(now time.Duration, p Pace) bool {
	return now-max(m.lastFreshEcho, m.firstHeard) > p.maxEchoAge()
}

// linkWorks reports whether the node has recently proved that it receives the answers of this
// leader. A node with a first heartbeat only is not silent yet, but has proved nothing.
func (m *member) linkWorks(now time.Duration, p Pace) bool {
	return m.hasHeartbeat() && m.freshStreak >= requiredStreak && !m.isSilent(now, p)
}

// hasCrashed reports whether there is evidence that the present boot is gone, or the one before
// the election of this leader.
func (m *member) hasCrashed() bool {
	return m.crashedUnheard || m.crashedBoot != 0 && m.crashedBoot >= m.heartbeat.Boot
}

// reset forgets the data of an earlier boot or process. The grant to it is kept, because its
// lease may still run. Only a higher boot proves that the earlier process is gone: it holds
// the lock of the same data directory.
func (m *member) reset(now time.Duration, boot uint64) {
	m.rebooted = m.hasHeartbeat() && boot > m.heartbeat.Boot
	m.firstHeard, m.freshStreak, m.echoedAt = now, 0, -1
	m.hadLease = false
	m.behindSince = -1
	m.sentAnswers = [maxAnswers]sentAnswer{}
}

// answerSent records an answer. Numbers are unique in a term, so that no node confirms with an
// answer to another one. Answers are remembered per node, so the number of nodes does not
// matter.
func (m *member) answerSent(now time.Duration, number uint64) {
	m.sentAnswers[m.answerCount%maxAnswers] = sentAnswer{number, now}
	m.answerCount++
}

// answerSentAt returns when the answer of this number was sent. ok is false if it was never
// sent, or is too old.
func (m *member) answerSentAt(number uint64) (time.Duration, bool) {
	for _, s := range m.sentAnswers {
		if number != 0 && s.number == number {
			return s.at, true
		}
	}
	return 0, false
}

// sentAnswer is the number of an answer, and when it was sent.
type sentAnswer struct {
	number uint64
	at     time.Duration
}
