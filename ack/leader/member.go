package leader

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// maxAnswers is the number of responses to each node that a leader remembers. It sends one response
// for each heartbeat, and an echo of a response older than a few heartbeats proves nothing. So
// 64 is more than enough.
const maxAnswers = 64

// member contains the data of a leader about one node, all received in its own term.
type member struct {
	id         shardmap.NodeID
	heartbeat  ack.Heartbeat // the newest of the present boot; Boot zero means none in this term
	addr       string
	connClosed bool // its connection broke, and no heartbeat has arrived since

	firstHeartbeatAt   time.Duration // time of the first heartbeat of the present boot
	lastHeartbeatAt    time.Duration // time of its last heartbeat
	lastFreshEchoAt    time.Duration // when a heartbeat last echoed a recent answer
	freshStreak        int           // number of such heartbeats in a row
	echoedAnswerSentAt time.Duration // when the newest echoed answer was sent; negative means none

	noInitialEcho bool          // the first heartbeat of the present boot echoed no response
	hadLease      bool          // the present boot has had a lease
	rebooted      bool          // the present boot replaced another one in this term
	lastGrantAt   time.Duration // of any boot; initially the election
	behindSince   time.Duration // since when its applied epoch is below the committed one; negative means that it is not

	crashedBoot            uint64 // the boot that crash evidence names; zero means none
	crashedBeforeHeartbeat bool   // the crash evidence came before any heartbeat of this term
	crashSeenAt            time.Duration
	removed                bool           // by an operator; any heartbeat resets it
	leaseDeniedUntil       shardmap.Epoch // no lease before it has acknowledged this proposal
	wasSilent              bool           // for EventNodeUnresponsive and EventNodeRecovered
	// healthySince is since when its app has been healthy; negative means that it is not.
	healthySince   time.Duration
	restartTimes   restartTimes
	releases       *ack.Releases // the newest that arrived; nil means none
	releasesDigest [32]byte      // of releases
	sentAnswers    [maxAnswers]sentAnswer
	answerCount    uint64 // number of responses sent to it
}

// hasHeartbeat reports whether the node has sent a heartbeat in the term of this leader.
func (m *member) hasHeartbeat() bool { return m.heartbeat.Boot != 0 }

// isSilent reports whether no recent heartbeat proves that both directions of the link work. A
// new boot gets the same time for its first proof.
func (m *member) isSilent(now time.Duration, pace ack.Pace) bool {
	return now-max(m.lastFreshEchoAt, m.firstHeartbeatAt) > maxEchoAge(pace)
}

// linkWorks reports whether the node has recently proved that it receives the responses of this
// leader. A node with a first heartbeat only is not silent yet, but has proved nothing.
func (m *member) linkWorks(now time.Duration, pace ack.Pace) bool {
	return m.hasHeartbeat() && m.freshStreak >= requiredStreak && !m.isSilent(now, pace)
}

// hasCrashed reports whether there is evidence that the process of the present boot has exited.
// Before the first heartbeat of this term, the evidence may be about the last boot before the
// election of this leader.
func (m *member) hasCrashed() bool {
	return m.crashedBeforeHeartbeat || m.crashedBoot != 0 && m.crashedBoot >= m.heartbeat.Boot
}

// reset forgets the data of an earlier boot or process. It keeps lastGrantAt, because the lease of
// that process may still run. Only a higher boot proves that the earlier process has exited,
// because the new process holds the lock of the same data directory.
func (m *member) reset(now time.Duration, boot uint64) {
	m.rebooted = m.hasHeartbeat() && boot > m.heartbeat.Boot
	m.firstHeartbeatAt, m.freshStreak, m.echoedAnswerSentAt = now, 0, -1
	m.hadLease = false
	m.behindSince = -1
	m.sentAnswers = [maxAnswers]sentAnswer{}
}

// answerSent records a response to the node. Answer numbers are unique in a term, so that the
// echo of a response to one node is never valid for another node. Each node has its own list of
// answers, so a large cluster does not shorten the list.
func (m *member) answerSent(now time.Duration, number uint64) {
	m.sentAnswers[m.answerCount%maxAnswers] = sentAnswer{number, now}
	m.answerCount++
}

// answerSentAt returns when the response of this number was sent. ok is false if it was never
// sent, or is too old.
func (m *member) answerSentAt(number uint64) (time.Duration, bool) {
	for _, sent := range m.sentAnswers {
		if number != 0 && sent.number == number {
			return sent.sentAt, true
		}
	}
	return 0, false
}

// sentAnswer is the number of a response, and when it was sent.
type sentAnswer struct {
	number uint64
	sentAt time.Duration
}
