package election

import (
	"slices"
	"time"
)

// Durations of a suspicion.
const (
	// A leader is missed when a heartbeat has waited missedTenths tenths of a heartbeat interval
	// for its response, and at least minMissedTime. The upper bound: leases end two heartbeats
	// after the leader has stopped, by which time the last voter of a majority must have sent the
	// unanswered heartbeat (up to one interval after the stop), waited, and elected a new leader.
	// The lower bound: a busy machine answers late.
	missedTenths  = 8
	minMissedTime = 50 * time.Millisecond
	// reportHeartbeats is how long a report of another voter counts, in heartbeats. A voter
	// that suspects its leader asks twice in that time.
	reportHeartbeats = 1
	// giveUpHeartbeats is the number of heartbeats after which a suspicion is abandoned. By
	// then the election timeout of Raft has expired.
	giveUpHeartbeats = 10
	// campaignStagger is the delay between the candidates in order. An election takes 10 ms,
	// and some tens of milliseconds on a slow disk. Two candidates in one term split the vote,
	// which costs an election timeout or more.
	campaignStagger = 100 * time.Millisecond
	// campaignTime is how long other voters wait for a voter that reports its candidacy.
	// Writing the new term takes that long on a slow disk.
	campaignTime = 250 * time.Millisecond
	// replyWait is how long a voter that could campaign waits for replies to its last request.
	// A missing reply may come from a voter that precedes it, is already a candidate, or has a
	// later term. Live voters reply within a few milliseconds.
	replyWait = 20 * time.Millisecond
	// minRequestInterval is the minimum time between two requests.
	minRequestInterval = 10 * time.Millisecond
	// A leader that was replaced but answers within falseAlarmWindow was alive: the machines are
	// too busy for the timeout. The timeout then doubles, up to eight times the initial value,
	// which is the election timeout of Raft, until falseAlarmMemory has passed since the last false
	// alarm.
	falseAlarmWindow = time.Second
	falseAlarmMemory = time.Minute
	maxFalseAlarms   = 3
)

// LogEnd is the term and the index of the last entry of a Raft log.
type LogEnd struct{ Term, Index uint64 }

// isNewerThan reports whether Raft allows a server with log l to win the vote of a server with log
// other, but not vice versa.
func (l LogEnd) isNewerThan(other LogEnd) bool {
	return l.Term > other.Term || l.Term == other.Term && l.Index > other.Index
}

// Report is the reply of a voter that was asked whether it misses its leader.
type Report struct {
	// LeaderTerm is the term of the leader that it misses, or zero if it misses none.
	LeaderTerm uint64
	Log        LogEnd
	// Candidate is set if it campaigns against that leader, or is about to.
	Candidate bool
	// CurrentTerm is the term of its own Raft server; zero means not reported.
	CurrentTerm uint64
}

// Raft is the interface to this node's Raft server. Each method returns the current value.
type Raft interface {
	// Term returns the current term.
	Term() uint64
	// Voters returns the voting servers of the latest configuration in its log, sorted.
	Voters() []string
	// LogEnd returns the end of its log.
	LogEnd() LogEnd
	// Leader returns the server that it considers the leader, or "".
	Leader() string
}

// Options are the options of a Suspicion.
type Options struct {
	Server    string        // Raft server ID of this node
	Heartbeat time.Duration // heartbeat interval of this node
	Raft      Raft          // interface to this node's Raft server
}

// Suspicion decides when a voter campaigns because its leader does not answer. A stopped process or
// a network partition closes no connection, and the election timeout of Raft is longer than a
// lease.
//
// A voter misses its leader when its heartbeats get no response. It then asks the other voters.
// Once a majority misses the leader, the voter with the newest log campaigns. Among voters with
// equal logs it is the one with the lowest id. The next voters in this order follow with a delay
// (docs/internals/protocol-failures.md, "A leader that is missed"). A false alarm costs one term.
// The goroutine of the agent calls all methods.
type Suspicion struct {
	options Options

	// Polls.
	lastPoll     time.Duration
	runningSince time.Duration // start of the current period of regular polls, without a pause of the process

	// The missed leader.
	ownReport   Report        // as of the last poll; its LeaderTerm is zero unless this voter misses its leader
	missedSince time.Duration // when this voter began to miss the leader of ownReport.LeaderTerm

	// Requests for reports of the other voters.
	peerReports map[string]receivedReport // by server: its newest report
	lastRequest time.Duration             // when this voter last asked
	nextRequest time.Duration             // when it asks again

	// The campaign.
	majoritySince     time.Duration // when a majority began to miss the leader; negative means that none does
	laterTermSince    time.Duration // when another voter reported a later term; negative means that none did
	campaignedAgainst uint64        // the term of the leader against which it campaigned in this suspicion; zero means none
	retryAt           time.Duration // no campaign before this time, because Raft has refused one

	// False alarms.
	aliveTerm        uint64        // the term of a missed leader that has answered since; zero means none
	aliveAt          time.Duration // when it answered
	falseAlarms      int           // number of recent replacements of a leader that was alive
	falseAlarmsUntil time.Duration // when falseAlarms is reset
}

// receivedReport is the report of another voter, and when it was requested.
type receivedReport struct {
	Report
	requestedAt time.Duration
}

// New returns the Suspicion of a process that starts now.
func New(options Options, now time.Duration) *Suspicion {
	return &Suspicion{
		options: options, lastPoll: now, runningSince: now,
		majoritySince: -1, laterTermSince: -1, peerReports: map[string]receivedReport{},
	}
}

// UnansweredHeartbeat is the oldest heartbeat of a node without a response. The zero value means
// that each heartbeat was answered, or that no leader has ever answered.
type UnansweredHeartbeat struct {
	SentAt     time.Duration
	LeaderTerm uint64 // term of the leader that answered last
}

// Poll checks whether the leader is missed. It returns the servers that must be asked whether
// they miss it, and whether this voter must campaign now. The caller calls it after each
// poll of the agent, with the zero value if its own server leads.
func (s *Suspicion) Poll(now time.Duration, unanswered UnansweredHeartbeat) (askServers []string, campaign bool) {
	if now-s.lastPoll > s.timeout()/2 {
		s.runningSince = now // answers may have arrived while this process did not run
	}
	s.lastPoll = now
	s.adjustTimeout(now)
	if !s.leaderMissed(now, unanswered) {
		s.ownReport, s.majoritySince = Report{CurrentTerm: s.options.Raft.Term()}, -1
		return nil, false
	}
	if s.ownReport.LeaderTerm != unanswered.LeaderTerm {
		s.beginSuspicion(now)
	}
	if now-s.missedSince > giveUpHeartbeats*s.options.Heartbeat {
		return nil, false
	}
	s.ownReport = Report{
		LeaderTerm: unanswered.LeaderTerm, CurrentTerm: unanswered.LeaderTerm, Log: s.options.Raft.LogEnd(),
		Candidate: s.campaignedAgainst == unanswered.LeaderTerm,
	}
	voters := s.options.Raft.Voters()
	if !slices.Contains(voters, s.options.Server) {
		return nil, false
	}
	if now >= s.nextRequest {
		s.lastRequest, s.nextRequest = now, now+reportHeartbeats*s.options.Heartbeat/2
		askServers = s.otherVoters(voters)
	}
	return askServers, s.tryCampaign(now, voters)
}

// beginSuspicion forgets everything about earlier suspicions. The caller then asks the other
// voters. The leader may be the same as in an earlier suspicion in which this voter decided to
// campaign. Raft did not start that campaign, because it would have ended the term, so this voter
// is not a candidate.
func (s *Suspicion) beginSuspicion(now time.Duration) {
	s.missedSince, s.nextRequest = now, now
	s.majoritySince, s.laterTermSince = -1, -1
	s.campaignedAgainst = 0
	clear(s.peerReports)
}

// timeout returns how long a heartbeat may wait for its response.
func (s *Suspicion) timeout() time.Duration {
	return max(s.options.Heartbeat*missedTenths/10, minMissedTime)
}

// leaderMissed reports whether the leader of the current term has stopped answering. A newly
// elected leader that has not answered this node yet is not missed.
func (s *Suspicion) leaderMissed(now time.Duration, unanswered UnansweredHeartbeat) bool {
	hasAnswered := unanswered.LeaderTerm != 0 && unanswered.LeaderTerm == s.options.Raft.Term()
	waitingSince := max(unanswered.SentAt, s.runningSince)
	return hasAnswered && now-waitingSince >= s.timeout()<<s.falseAlarms
}

// otherVoters returns the other voters except the leader.
func (s *Suspicion) otherVoters(voters []string) []string {
	leader := s.options.Raft.Leader()
	return slices.DeleteFunc(slices.Clone(voters), func(voter string) bool { return voter == s.options.Server || voter == leader })
}

// tryCampaign reports whether a majority misses the leader, and it is the turn of this voter to
// campaign. In that case it records the campaign.
func (s *Suspicion) tryCampaign(now time.Duration, voters []string) bool {
	summary := s.summarizeReports(now, voters)
	if 2*summary.missing <= len(voters) {
		s.majoritySince = -1
		return false
	}
	if s.majoritySince < 0 {
		s.majoritySince = now
	}
	if now < s.majoritySince+summary.campaignDelay() || now < s.retryAt {
		return false
	}
	if s.ownReport.Candidate || s.mayBeElecting(now) {
		return false
	}
	s.campaignedAgainst, s.ownReport.Candidate = s.ownReport.LeaderTerm, true
	return true
}

// reportSummary summarizes the newest reports of all voters.
type reportSummary struct {
	missing    int  // voters that miss the leader, including this one
	preceding  int  // of these, other voters that campaign before this one
	candidates bool // one of these already campaigns
	unreplied  bool // a voter has not replied to the last request, so its report may be outdated
}

// summarizeReports summarizes the reports of the other voters.
func (s *Suspicion) summarizeReports(now time.Duration, voters []string) reportSummary {
	summary := reportSummary{missing: 1}
	for _, voter := range s.otherVoters(voters) {
		report := s.peerReports[voter]
		if report.requestedAt < s.lastRequest {
			summary.unreplied = true
		}
		if !s.reportCounts(now, report) {
			continue
		}
		summary.missing++
		if report.Candidate {
			summary.candidates = true
		} else if s.precedes(voter, report.Log) {
			summary.preceding++
		}
	}
	return summary
}

// campaignDelay returns how long this voter waits before it campaigns, counted from when a majority
// began to miss the leader.
func (r reportSummary) campaignDelay() time.Duration {
	delay := time.Duration(r.preceding) * campaignStagger
	if r.candidates {
		delay = max(delay, campaignTime)
	}
	if r.unreplied {
		delay += replyWait
	}
	return delay
}

// mayBeElecting reports whether another voter was in a later term a short time ago. A candidate and
// its voters no longer report a missed leader once the new term is written, although they may be
// electing one.
func (s *Suspicion) mayBeElecting(now time.Duration) bool {
	return s.laterTermSince >= 0 && now < s.laterTermSince+campaignTime
}

// CampaignRefused reports that the Raft server did not start the campaign that Poll asked for.
// While the leader of the term is missed, this voter may campaign again.
func (s *Suspicion) CampaignRefused(now time.Duration, term uint64) {
	if s.campaignedAgainst == term {
		s.campaignedAgainst, s.retryAt = 0, now+campaignStagger
		s.ownReport.Candidate = false
	}
}

// precedes reports whether a server with the given log campaigns before this one. The server
// with the newest log can win every vote.
func (s *Suspicion) precedes(server string, log LogEnd) bool {
	return log.isNewerThan(s.ownReport.Log) || log == s.ownReport.Log && server < s.options.Server
}

// reportCounts reports whether another voter misses the same leader: its report names the same
// leader term, and is recent.
func (s *Suspicion) reportCounts(now time.Duration, report receivedReport) bool {
	age := now - report.requestedAt
	return report.LeaderTerm == s.ownReport.LeaderTerm && age <= reportHeartbeats*s.options.Heartbeat
}

// RecordReport records the reply of a server to a request that was sent at requestedAt. The age
// of a report counts from that time, because the reply may have been delayed. A reply to a request
// of an earlier suspicion is ignored.
func (s *Suspicion) RecordReport(requestedAt time.Duration, server string, report Report) {
	isNewest := requestedAt >= s.missedSince && requestedAt >= s.peerReports[server].requestedAt
	if !isNewest {
		return
	}
	s.peerReports[server] = receivedReport{report, requestedAt}
	if report.CurrentTerm > s.ownReport.LeaderTerm && s.laterTermSince < 0 {
		s.laterTermSince = requestedAt
	}
}

// RecordRequest records, between two polls, a request of another server, which therefore misses its
// leader. If this node also misses the leader and lacks a report of that server, it asks all voters
// soon.
func (s *Suspicion) RecordRequest(now time.Duration, server string) {
	missesLeader := s.ownReport.LeaderTerm != 0
	if missesLeader && !s.reportCounts(now, s.peerReports[server]) {
		s.nextRequest = min(s.nextRequest, s.lastRequest+minRequestInterval)
	}
}

// LeaderAlive records a response of the leader of the given term, which this node misses or has
// missed.
func (s *Suspicion) LeaderAlive(now time.Duration, term uint64) {
	s.aliveTerm, s.aliveAt = term, now
}

// adjustTimeout increases the timeout after the replacement of a leader that was alive.
func (s *Suspicion) adjustTimeout(now time.Duration) {
	if now >= s.falseAlarmsUntil {
		s.falseAlarms = 0
	}
	if s.aliveTerm == 0 {
		return
	}
	if s.options.Raft.Term() > s.aliveTerm { // the leader that has answered was replaced
		s.falseAlarms = min(s.falseAlarms+1, maxFalseAlarms)
		s.falseAlarmsUntil, s.aliveTerm = now+falseAlarmMemory, 0
	} else if now-s.aliveAt > falseAlarmWindow {
		s.aliveTerm = 0
	}
}

// Report returns the report of this node as of the last Poll.
func (s *Suspicion) Report() Report { return s.ownReport }
