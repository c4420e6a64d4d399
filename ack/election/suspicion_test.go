package election_test

import (
	"slices"
	"testing"
	"time"

	"shardway/ack/election"
)

// raftOf is a Raft server.
type raftOf struct {
	term   uint64
	voters []string
	leader string
	log    election.LogEnd
}

func (r raftOf) Term() uint64            { return r.term }
func (r raftOf) Voters() []string        { return r.voters }
func (r raftOf) Leader() string          { return r.leader }
func (r raftOf) LogEnd() election.LogEnd { return r.log }

// suspiciousVoter is a voter whose leader, a, has not answered since second one.
type suspiciousVoter struct {
	t          *testing.T
	d          *election.Suspicion
	raft       *raftOf
	now        time.Duration
	asked      []string
	campaigned bool
}

func newSuspiciousVoter(t *testing.T, self string, voters ...string) *suspiciousVoter {
	t.Helper()
	r := &raftOf{term: 7, voters: voters, leader: "a", log: election.LogEnd{Term: 7, Index: 20}}
	return &suspiciousVoter{t: t, raft: r, now: time.Second, d: election.New(election.Options{Server: self, Heartbeat: 100 * time.Millisecond, Raft: r}, time.Second)}
}

// pass lets time pass, and records which servers are asked and whether the voter campaigns.
func (v *suspiciousVoter) pass(d time.Duration) {
	for end := v.now + d; v.now < end; {
		v.now += 10 * time.Millisecond
		ask, campaign := v.d.Poll(v.now, election.UnansweredHeartbeat{SentAt: time.Second, LeaderTerm: 7})
		if ask != nil {
			v.asked = ask
		}
		v.campaigned = v.campaigned || campaign
	}
}

// receive gives the voter reports of others, as replies to its last request.
func (v *suspiciousVoter) receive(m election.Report, from ...string) {
	for _, s := range from {
		v.d.RecordReport(v.now, s, m)
	}
}

func (v *suspiciousVoter) wants(campaigns bool, when string) {
	v.t.Helper()
	if v.campaigned != campaigns {
		v.t.Errorf("%s it campaigns: %v, want %v", when, v.campaigned, campaigns)
	}
}

// suspicionOf returns the report of a voter whose log ends with entry index.
func suspicionOf(index uint64) election.Report {
	return election.Report{LeaderTerm: 7, Log: election.LogEnd{Term: 7, Index: index}, CurrentTerm: 7}
}

func TestVoterCampaignsOnceAMajorityMissesTheLeader(t *testing.T) {
	v := newSuspiciousVoter(t, "b", "a", "b", "c")
	v.pass(70 * time.Millisecond)
	if v.asked != nil || v.d.Report().LeaderTerm != 0 {
		t.Errorf("it asks %v and says %v before a heartbeat has waited", v.asked, v.d.Report())
	}
	v.pass(10 * time.Millisecond)
	if want := []string{"c"}; !slices.Equal(v.asked, want) {
		t.Errorf("it asks %v, want %v", v.asked, want)
	}
	if got, want := v.d.Report(), suspicionOf(20); got != want {
		t.Errorf("Says() = %v, want %v", got, want)
	}
	v.receive(election.Report{}, "c")
	v.pass(50 * time.Millisecond)
	v.wants(false, "alone")
	v.receive(suspicionOf(20), "c")
	v.pass(10 * time.Millisecond)
	v.wants(true, "with c")
}

func TestVotersCampaignInOrderOfLogAndID(t *testing.T) {
	for _, c := range []struct {
		self   string
		theirs uint64
		first  bool
	}{{"b", 20, true}, {"c", 20, false}, {"b", 21, false}, {"c", 19, true}} {
		other := map[string]string{"b": "c", "c": "b"}[c.self]
		v := newSuspiciousVoter(t, c.self, "a", "b", "c")
		v.pass(80 * time.Millisecond)
		v.receive(suspicionOf(c.theirs), other)
		v.pass(50 * time.Millisecond)
		if v.campaigned != c.first {
			t.Errorf("%s, and %s has entry %d: it campaigns first: %v, want %v", c.self, other, c.theirs, v.campaigned, c.first)
		}
		v.receive(suspicionOf(c.theirs), other)
		v.pass(80 * time.Millisecond)
		v.wants(true, "after the stagger")
	}
}

func TestVoterWaitsForRepliesBeforeItCampaigns(t *testing.T) {
	v := newSuspiciousVoter(t, "c", "a", "b", "c", "d", "e")
	v.pass(80 * time.Millisecond)
	v.receive(suspicionOf(20), "d", "e")
	v.pass(10 * time.Millisecond)
	v.wants(false, "while b has said nothing")
	v.receive(suspicionOf(20), "b")
	v.pass(50 * time.Millisecond)
	v.wants(false, "after b, which is before it,")
	silent := newSuspiciousVoter(t, "c", "a", "b", "c", "d", "e")
	silent.pass(80 * time.Millisecond)
	silent.receive(suspicionOf(20), "d", "e")
	silent.pass(40 * time.Millisecond)
	silent.wants(true, "when b says nothing")
}

func TestVoterYieldsToCandidate(t *testing.T) {
	v := newSuspiciousVoter(t, "b", "a", "b", "c")
	v.pass(80 * time.Millisecond)
	m := suspicionOf(19)
	m.Candidate = true
	v.receive(m, "c")
	v.pass(60 * time.Millisecond)
	v.wants(false, "beside c")
}

// A report from before the term of a candidate was written is no reason to campaign: on disks
// with 70 ms per write both split the vote each time.
func TestVoterWaitsForReplyOfPrecedingVoter(t *testing.T) {
	v := newSuspiciousVoter(t, "c", "a", "b", "c")
	v.pass(80 * time.Millisecond)
	v.receive(suspicionOf(20), "b")
	v.pass(50 * time.Millisecond)
	v.receive(suspicionOf(20), "b")
	v.pass(60 * time.Millisecond) // asked just now
	v.wants(false, "before b has replied")
	v.receive(election.Report{CurrentTerm: 8}, "b") // it has written its term
	v.pass(100 * time.Millisecond)
	v.wants(false, "beside b")
}

// A reported candidate gets more time than a voter that is only first in order. If its
// campaign has failed after that, the next voter campaigns.
func TestVoterGivesCandidateTime(t *testing.T) {
	v := newSuspiciousVoter(t, "c", "a", "b", "c")
	v.pass(80 * time.Millisecond)
	m := suspicionOf(20)
	m.Candidate = true
	for range 5 {
		v.receive(m, "b")
		v.pass(50 * time.Millisecond)
	}
	v.wants(false, "while b writes its term")
	v.receive(m, "b")
	v.pass(50 * time.Millisecond)
	v.wants(true, "after the time of a slow election")
}

// Of five voters, three may miss the leader while a fourth has written its term. A campaign of
// another voter would split the vote.
func TestVoterYieldsToLaterTerm(t *testing.T) {
	v := newSuspiciousVoter(t, "b", "a", "b", "c", "d", "e")
	v.pass(80 * time.Millisecond)
	for range 4 {
		v.receive(election.Report{CurrentTerm: 8}, "c")
		v.receive(suspicionOf(20), "d", "e")
		v.pass(50 * time.Millisecond)
	}
	v.wants(false, "beside c")
	for range 2 {
		v.receive(election.Report{CurrentTerm: 8}, "c")
		v.receive(suspicionOf(20), "d", "e")
		v.pass(50 * time.Millisecond)
	}
	v.wants(true, "after the time of a slow election")
	other := newSuspiciousVoter(t, "b", "a", "b", "c", "d", "e")
	other.pass(80 * time.Millisecond)
	other.receive(election.Report{CurrentTerm: 7}, "c")
	other.receive(suspicionOf(20), "d", "e")
	other.pass(10 * time.Millisecond)
	other.wants(true, "when c hears the leader")
}

// A voter whose Raft server refused the campaign is no candidate. It once reported to be one
// for as long as that leader hung.
func TestRefusedCampaignIsRetried(t *testing.T) {
	v := newSuspiciousVoter(t, "b", "a", "b", "c")
	v.pass(80 * time.Millisecond)
	v.receive(suspicionOf(20), "c")
	v.pass(10 * time.Millisecond)
	v.wants(true, "with c")
	v.d.CampaignRefused(v.now, 6)
	if !v.d.Report().Candidate {
		t.Error("it does not report to be a candidate after a refusal that names another term")
	}
	v.d.CampaignRefused(v.now, 7)
	if v.d.Report().Candidate {
		t.Error("it reports to be a candidate after Raft refused")
	}
	v.campaigned = false
	for range 2 {
		v.receive(suspicionOf(20), "c")
		v.pass(40 * time.Millisecond)
	}
	v.wants(false, "at once")
	v.receive(suspicionOf(20), "c")
	v.pass(20 * time.Millisecond)
	v.wants(true, "a moment later")
}

// A campaign that Raft has never started does not count when the leader of the same term answers,
// and is missed again. The voter once reported to be a candidate whenever that leader hung.
func TestNextSuspicionOfTheSameLeaderCampaigns(t *testing.T) {
	v := newSuspiciousVoter(t, "b", "a", "b", "c")
	v.pass(80 * time.Millisecond)
	v.receive(suspicionOf(20), "c")
	v.pass(10 * time.Millisecond)
	v.wants(true, "with c")
	v.d.Poll(v.now, election.UnansweredHeartbeat{})
	v.campaigned = false
	v.pass(10 * time.Millisecond)
	if m := v.d.Report(); m.LeaderTerm != 7 || m.Candidate {
		t.Errorf("it reports %+v in the next suspicion, want the missed term 7 and no candidate", m)
	}
	v.receive(suspicionOf(20), "c")
	v.pass(10 * time.Millisecond)
	v.wants(true, "in the next suspicion")
}

func TestSuspicionIsAbandoned(t *testing.T) {
	v := newSuspiciousVoter(t, "b", "a", "b", "c")
	v.pass(2 * time.Second)
	v.asked = nil
	v.receive(suspicionOf(20), "c")
	v.pass(time.Second)
	v.wants(false, "after Raft's own timeout")
	if v.asked != nil {
		t.Errorf("it still asks %v", v.asked)
	}
}

// A voter that is asked while it misses the leader asks in turn, but at a limited rate.
func TestRequestMakesSuspiciousVoterAsk(t *testing.T) {
	v := newSuspiciousVoter(t, "b", "a", "b", "c")
	v.d.RecordRequest(v.now, "c")
	v.pass(80 * time.Millisecond)
	v.asked = nil
	v.d.RecordRequest(v.now, "c")
	v.pass(10 * time.Millisecond)
	if v.asked == nil {
		t.Error("it does not ask one that has just come to miss the leader")
	}
	v.receive(suspicionOf(20), "c")
	v.asked = nil
	v.d.RecordRequest(v.now, "c")
	v.pass(10 * time.Millisecond)
	if v.asked != nil {
		t.Error("it asks again what it knows")
	}
}

func TestNonvoterNeverCampaigns(t *testing.T) {
	v := newSuspiciousVoter(t, "d", "a", "b", "c")
	v.pass(80 * time.Millisecond)
	v.receive(suspicionOf(20), "b", "c")
	v.pass(200 * time.Millisecond)
	v.wants(false, "without a vote")
	if v.asked != nil {
		t.Errorf("it asks %v", v.asked)
	}
}

// A replaced leader that answers a moment later was alive: on busy machines voters must wait
// longer, otherwise they would replace one leader after the other.
func TestFalseAlarmRaisesTheTimeout(t *testing.T) {
	v := newSuspiciousVoter(t, "b", "a", "b", "c")
	v.pass(80 * time.Millisecond)
	v.d.LeaderAlive(v.now, 7)
	v.raft.term = 8
	v.pass(10 * time.Millisecond)
	of := election.UnansweredHeartbeat{SentAt: v.now, LeaderTerm: 8}
	missed := func(d time.Duration) bool {
		for end := v.now + d; v.now < end; {
			v.now += 10 * time.Millisecond
			v.d.Poll(v.now, of)
		}
		return v.d.Report().LeaderTerm == 8
	}
	if missed(150 * time.Millisecond) {
		t.Error("it is as impatient as before")
	}
	if !missed(10 * time.Millisecond) {
		t.Error("it does not miss a leader after twice the time")
	}
	for range 6100 { // a minute
		v.now += 10 * time.Millisecond
		v.d.Poll(v.now, election.UnansweredHeartbeat{})
	}
	of.SentAt = v.now
	if !missed(80 * time.Millisecond) {
		t.Error("a minute later it is no more as impatient as before")
	}
}

// replaceLeader replaces the leader, which last answered the given time before.
func (v *suspiciousVoter) replaceLeader(spoke time.Duration) {
	v.d.LeaderAlive(v.now, v.raft.term)
	v.pass(spoke)
	v.raft.term++
	v.d.Poll(v.now, election.UnansweredHeartbeat{})
}

// missedAfter returns how long a heartbeat waits until the leader is missed.
func (v *suspiciousVoter) missedAfter() (waited time.Duration) {
	of := election.UnansweredHeartbeat{SentAt: v.now, LeaderTerm: v.raft.term}
	for ; v.d.Report().LeaderTerm == 0; waited += 10 * time.Millisecond {
		v.now += 10 * time.Millisecond
		v.d.Poll(v.now, of)
	}
	v.d.Poll(v.now, election.UnansweredHeartbeat{})
	return waited
}

// A leader that answered a while before its replacement may have hung since.
func TestLateReplacementIsNoFalseAlarm(t *testing.T) {
	for spoke, want := range map[time.Duration]time.Duration{time.Second: 160 * time.Millisecond, 1010 * time.Millisecond: 80 * time.Millisecond} {
		v := newSuspiciousVoter(t, "b", "a", "b", "c")
		v.replaceLeader(spoke)
		if got := v.missedAfter(); got != want {
			t.Errorf("a leader spoke %v before it was replaced, and the next one is missed after %v, want %v", spoke, got, want)
		}
	}
}

// However often live leaders are replaced, a leader that hangs is missed as soon as by Raft.
func TestTimeoutOfASuspicionIsBounded(t *testing.T) {
	v := newSuspiciousVoter(t, "b", "a", "b", "c")
	for i, want := range []time.Duration{160 * time.Millisecond, 320 * time.Millisecond, 640 * time.Millisecond, 640 * time.Millisecond, 640 * time.Millisecond} {
		v.replaceLeader(10 * time.Millisecond)
		if got := v.missedAfter(); got != want {
			t.Errorf("after %d false doubts a leader is missed after %v, want %v", i+1, got, want)
		}
	}
}

// A reply that arrives after the reply to a later request is ignored.
func TestVoterUsesReplyToItsLastRequest(t *testing.T) {
	v := newSuspiciousVoter(t, "b", "a", "b", "c")
	v.pass(80 * time.Millisecond)
	first := v.now
	v.pass(50 * time.Millisecond)
	v.receive(election.Report{CurrentTerm: 7}, "c")
	v.d.RecordReport(first, "c", suspicionOf(20))
	v.pass(40 * time.Millisecond)
	v.wants(false, "by what c has taken back")
}
