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
	missedTenths  = 8
	minMissedTime = 50 * time.Millisecond
	// believeBeats is for how long another's doubt counts, in heartbeats; who goes on
	// missing asks twice in that time.
	reportHeartbeats = 1
	// despairBeats is after how many heartbeats a doubt is given up: Raft's own timeout
	// has come by then, and is all that can help.
	giveUpHeartbeats = 10
	// standStagger is how much later the next in order stands: an election takes 10 ms,
	// on a slow disk some tens. Two that stand in one term split the vote, which costs an
	// election timeout and more.
	campaignStagger = 100 * time.Millisecond
	// standLeave is how long one has that says it stands: its term is over for it as soon as
	// that is written, and on a slow disk only that takes so long.
	campaignTime = 250 * time.Millisecond
	// hearOut is how long it waits, at its turn, for those that have not replied to its
	// last question yet: one that is before it in order, or stands already, may be among
	// them, or one that has another term by now. Who is there replies within a few milliseconds.
	replyWait = 20 * time.Millisecond
	// askPause is the least time between two times that it asks.
	minRequestInterval = 10 * time.Millisecond
	// A leader that was replaced and speaks within livesWithin was there: the machines
	// are busier than this patience is made for. It doubles then, up to eight times what
	// it was, which is Raft's own; for calmFor after the last such election.
	falseAlarmWindow = time.Second
	falseAlarmMemory = time.Minute
	maxFalseAlarms   = 3
)

// LogEnd is where a server's log ends: the term and the index of its last entry.
type LogEnd struct{ Term, Index uint64 }

// newer reports that who has a log like this can be elected by one who has o's, and not
// the other way round.
func (l LogEnd) newer(o LogEnd) bool { return l.Term > o.Term || l.Term == o.Term && l.Index > o.Index }

// Missing is what a voter says when it is asked whether it misses its leader.
type SuspicionReport struct {
	// Term is that of the leader that it misses; zero: it misses none.
	LeaderTerm uint64
	Log        LogEnd
	// Stands reports that it stands for election against it, or is about to.
	Candidate bool
	// In is the term that its own Raft server is in, whomever it misses; zero: it is of a
	// program that does not say.
	CurrentTerm uint64
}

// Voter is what a Doubt reads of the node's own Raft server, anew each time.
type Voter interface {
	Raft
	// LogEnd returns where its log ends.
	LogEnd() LogEnd
	// Leader returns the server that it takes for the leader, or "".
	Leader() string
}

// LeaderSuspicionOptions are what a Doubt stands on.
type LeaderSuspicionOptions struct {
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
type LeaderSuspicion struct {
	o LeaderSuspicionOptions

	lastPoll     time.Duration // when it was looked last
	runningSince time.Duration // since when there was no gap between looks

	report            SuspicionReport // what this node says now
	missedSince       time.Duration   // since when it misses that leader
	lastRequest       time.Duration   // when it asked last
	nextRequest       time.Duration
	majoritySince     time.Duration // since when a majority misses it; negative: none does
	campaignedAgainst uint64        // the term of the last leader against whom this node stood
	retryAt           time.Duration // it does not stand again before, after it could not
	reports           map[string]receivedReport
	laterTermSince    time.Duration // since when another is known to be in a later term; negative: none is

	aliveTerm        uint64        // the term of a leader that was missed, and that has spoken since; zero: none
	aliveAt          time.Duration // when
	falseAlarms      int           // how often one like that was replaced lately
	falseAlarmsUntil time.Duration // until when that counts
}

// hearsay is what another voter has said of itself, and when it was asked.
type receivedReport struct {
	SuspicionReport
	requestedAt time.Duration
}

// NewLeaderSuspicion returns the Doubt of a process that begins now.
func NewLeaderSuspicion(o LeaderSuspicionOptions, now time.Duration) *LeaderSuspicion {
	return &LeaderSuspicion{o: o, lastPoll: now, runningSince: now, majoritySince: -1, laterTermSince: -1, reports: map[string]receivedReport{}}
}

// Waiting is a node's oldest heartbeat that was not answered.
type UnansweredHeartbeat struct {
	// Since is when it was sent, Term that of the leader that answered last, zero if none
	// did or no heartbeat waits.
	Since time.Duration
	Term  uint64
}

// Waiting returns for what answer the node waits.
func (a *Agent) Unanswered() UnansweredHeartbeat {
	since, ok := a.holder.oldestUnanswered()
	if !ok {
		return UnansweredHeartbeat{}
	}
	return UnansweredHeartbeat{Since: since, Term: a.answerTerm}
}

// Look finds out whether the leader is missed, and returns the servers that are to be
// asked whether they miss it, and whether to stand for election now. It is due as often
// as the agent's. of is what its Agent waits for, zero of a node that leads itself.
func (s *LeaderSuspicion) Poll(now time.Duration, of UnansweredHeartbeat) (ask []string, stand bool) {
	if now-s.lastPoll > s.timeout()/2 {
		s.runningSince = now // who was not there cannot tell what was not answered
	}
	s.lastPoll = now
	s.adjustTimeout(now)
	if !s.leaderMissed(now, of) {
		s.report, s.majoritySince = SuspicionReport{CurrentTerm: s.o.Raft.Term()}, -1
		return nil, false
	}
	if s.report.LeaderTerm != of.Term {
		s.missedSince, s.nextRequest, s.majoritySince, s.laterTermSince = now, now, -1, -1
		clear(s.reports)
	}
	if now-s.missedSince > giveUpHeartbeats*s.o.Heartbeat {
		return nil, false
	}
	s.report = SuspicionReport{LeaderTerm: of.Term, Log: s.o.Raft.LogEnd(), Candidate: s.campaignedAgainst == of.Term, CurrentTerm: of.Term}
	voters := s.o.Raft.Voters()
	if !slices.Contains(voters, s.o.Server) {
		return nil, false
	}
	if now >= s.nextRequest {
		s.lastRequest, s.nextRequest = now, now+reportHeartbeats*s.o.Heartbeat/2
		ask = s.others(voters)
	}
	return ask, s.shouldCampaign(now, voters)
}

// patience is how long a heartbeat may wait for its answer.
func (s *LeaderSuspicion) timeout() time.Duration {
	return max(s.o.Heartbeat*missedTenths/10, minMissedTime)
}

// misses reports that the leader of the present term has answered before, and does not
// any more. One that was just elected has answered nobody yet.
func (s *LeaderSuspicion) leaderMissed(now time.Duration, of UnansweredHeartbeat) bool {
	return of.Term != 0 && now-max(of.Since, s.runningSince) >= s.timeout()<<s.falseAlarms && of.Term == s.o.Raft.Term()
}

// others returns the voters that may miss the leader, too.
func (s *LeaderSuspicion) others(voters []string) []string {
	leader := s.o.Raft.Leader()
	return slices.DeleteFunc(slices.Clone(voters), func(v string) bool { return v == s.o.Server || v == leader })
}

// stands reports that a majority misses the leader, and that it is this node's turn.
func (s *LeaderSuspicion) shouldCampaign(now time.Duration, voters []string) bool {
	with, silent, wait, leave := 1, 0, time.Duration(0), time.Duration(0)
	for _, v := range s.others(voters) {
		h := s.reports[v]
		if h.requestedAt < s.lastRequest {
			silent++ // it may have come to miss the leader since it said that it does not
		}
		if s.reportCounts(now, h) {
			with++
			switch {
			case h.Candidate:
				leave = campaignTime
			case s.precedes(v, h.Log):
				wait += campaignStagger
			}
		}
	}
	if 2*with <= len(voters) {
		s.majoritySince = -1
		return false
	}
	if s.majoritySince < 0 {
		s.majoritySince = now
	}
	wait = max(wait, leave)
	if silent > 0 {
		wait += replyWait
	}
	// Who stands misses nobody any more once its term is written, and so do those that vote.
	elected := s.laterTermSince < 0 || now >= s.laterTermSince+campaignTime
	if now < s.majoritySince+wait || now < s.retryAt || !elected || s.report.Candidate {
		return false
	}
	s.campaignedAgainst, s.report.Candidate = s.report.LeaderTerm, true
	return true
}

// Refused is told that its Raft server does not stand against the leader of a term, though
// the voter was to. While it is to be missed, that voter is one of those that may stand.
func (s *LeaderSuspicion) CampaignRefused(now time.Duration, term uint64) {
	if s.campaignedAgainst == term {
		s.campaignedAgainst, s.retryAt = 0, now+campaignStagger
		s.report.Candidate = false
	}
}

// precedes reports that a server with such a log is before this one in the order of those
// that stand: who is first by the log is elected by all.
func (s *LeaderSuspicion) precedes(server string, log LogEnd) bool {
	return log.newer(s.report.Log) || log == s.report.Log && strings.Compare(server, s.o.Server) < 0
}

// believes reports that another's doubt counts: it misses this very leader, and has said
// so lately.
func (s *LeaderSuspicion) reportCounts(now time.Duration, h receivedReport) bool {
	return h.LeaderTerm == s.report.LeaderTerm && now-h.requestedAt <= reportHeartbeats*s.o.Heartbeat
}

// Heard takes what a server has replied that was asked at the given time. Only a reply
// shows how old it can be. One to what was asked for an earlier doubt says nothing.
func (s *LeaderSuspicion) ReportReceived(asked time.Duration, server string, m SuspicionReport) {
	if asked >= s.missedSince && asked >= s.reports[server].requestedAt {
		s.reports[server] = receivedReport{m, asked}
		if m.CurrentTerm > s.report.LeaderTerm && s.laterTermSince < 0 {
			s.laterTermSince = asked
		}
	}
}

// Asked is told, between two Looks, that another server asks: so that one misses its
// leader now, and if this node does, too, it asks in turn.
func (s *LeaderSuspicion) ReportRequested(now time.Duration, server string) {
	if s.report.LeaderTerm != 0 && !s.reportCounts(now, s.reports[server]) {
		s.nextRequest = min(s.nextRequest, s.lastRequest+minRequestInterval)
	}
}

// Lives is told that the leader of a term, which this node misses or has missed, speaks.
func (s *LeaderSuspicion) LeaderAlive(now time.Duration, term uint64) {
	s.aliveTerm, s.aliveAt = term, now
}

// judge has patience grow if a leader that lives was replaced.
func (s *LeaderSuspicion) adjustTimeout(now time.Duration) {
	if now >= s.falseAlarmsUntil {
		s.falseAlarms = 0
	}
	switch {
	case s.aliveTerm == 0:
	case s.o.Raft.Term() > s.aliveTerm:
		s.falseAlarms, s.falseAlarmsUntil, s.aliveTerm = min(s.falseAlarms+1, maxFalseAlarms), now+falseAlarmMemory, 0
	case now-s.aliveAt > falseAlarmWindow:
		s.aliveTerm = 0
	}
}

// Says returns what this node says of itself, as of the last Look.
func (s *LeaderSuspicion) Report() SuspicionReport { return s.report }
