package agent

import (
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// passOn moves every shard from a to b, the ones in notes released with these notes, the
// others unreleased.
func (s *hookStage) passOn(server string, notes map[shardmap.Shard]string) {
	s.t.Helper()
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	last := s.see.state.Proposed()
	c := ack.CommitEntry{Epoch: last.Epoch(), Digest: last.Digest(), Servers: []string{server}}
	for sh := range shardmap.Shard(s.see.state.Shards()) {
		if n, ok := notes[sh]; ok {
			c.Released = append(c.Released, ack.Released{Shard: sh, Note: []byte(n)})
		}
	}
	s.entry(ack.EncodeCommit(ack.MinFormatVersion, c))
	s.see.drainingEpoch = 0
}

// Release notes belong to the disk that acknowledged the map: a new disk of the same node does
// not have the state that the old one may have written since.
func TestAnotherDiskGetsNoReleaseNote(t *testing.T) {
	for _, test := range []struct {
		server   string
		released bool
	}{{"b/1", true}, {"b/2", false}} {
		s := newHookStage(t, 2)
		s.passOn("b/1", map[shardmap.Shard]string{1: "there"})
		s.k = newHookMachine(s.k.options, nodeProcess{node: "b", server: test.server, boot: 1})
		s.k.process.hadLease, s.k.process.firstLeaseEpoch = true, s.see.state.Committed().Epoch()-1
		calls := s.pollAfter(0)
		if len(calls) != 1 || len(calls[0].Shards) != 2 {
			t.Fatalf("calls %+v", calls)
		}
		none, one := calls[0].Shards[0], calls[0].Shards[1]
		if none.Released || none.Note != nil || one.Released != test.released || (string(one.Note) == "there") != test.released {
			t.Errorf("%s acquires %+v", test.server, calls[0].Shards)
		}
	}
}

// The notes of a node are bounded: shards whose notes do not fit move unreleased.
func TestNotesOfANodeAreBounded(t *testing.T) {
	s := newHookStage(t, 1200)
	s.acquire()
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	whole := strings.Repeat("x", ack.MaxNote)
	for done := false; !done; {
		done = true
		for _, c := range s.pollAfter(0) {
			done = false
			r := HookResult{Seq: c.Seq, Notes: map[shardmap.Shard][]byte{}}
			for _, x := range c.Shards {
				if x.Shard < 200 {
					r.Notes[x.Shard] = []byte(whole)
				}
			}
			s.result(r)
		}
	}
	s.k.prepareReleases(s.now, s.see.drainingEpoch)
	s.k.delivery.sendDue(s.now)
	if len(s.got) != 1 || len(s.got[0].OverLimit) != 200-ack.MaxNoteBytes/ack.MaxNote || len(s.got[0].Shards)+len(s.got[0].OverLimit) != 1200 {
		t.Fatalf("%d deliveries, the first of %d shards without %d", len(s.got), len(s.got[0].Shards), len(s.got[0].OverLimit))
	}
	if s.got[0].OverLimit[0] != ack.MaxNoteBytes/ack.MaxNote {
		t.Errorf("the first that does not fit is %d", s.got[0].OverLimit[0])
	}
}

// releases makes the app acquire its shards, and release them as they move to b.
func (s *hookStage) releases() {
	s.t.Helper()
	s.acquire()
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	for _, c := range s.pollAfter(0) {
		s.result(HookResult{Seq: c.Seq})
	}
	s.pollAfter(0)
}

// After a goodbye, a node sends its releases to each later leader once, within its time. A
// late confirmation of an earlier leader changes nothing.
func TestLaterLeaderGetsReleasesOfAGoodbye(t *testing.T) {
	s := newHookStage(t, 2)
	s.releases()
	s.k.prepareReleases(s.now, s.see.drainingEpoch)
	s.k.delivery.sendDue(s.now)
	s.k.delivery.recordHeartbeat(1)
	digest := s.k.delivery.digest
	for i, test := range []struct {
		what   string
		taken  bool
		term   uint64
		parted bool
		sends  bool
	}{
		{"its leader has it", true, 3, true, false},
		{"an answer of before that", false, 3, true, false},
		{"a later leader, before the goodbye", false, 4, false, false},
		{"a later leader", false, 4, true, true},
		{"the same one, which still has not", false, 4, true, true},
		{"the one before", true, 3, true, true},
		{"one that is later still", false, 5, true, true},
		{"which has it", true, 5, true, false},
	} {
		s.k.handleAnswer(s.now, ack.Answer{ReleasesReceived: test.taken, Term: test.term, HeartbeatNumber: 1, Epoch: s.see.drainingEpoch}, test.parted)
		n := len(s.got)
		if s.k.delivery.sendDue(s.now); (len(s.got) > n) != test.sends {
			t.Errorf("step %d, %s: sent %v", i, test.what, len(s.got) > n)
		}
		s.now += resendInterval
	}
	s.k.handleAnswer(s.now, ack.Answer{Term: 6, Epoch: s.see.drainingEpoch}, true)
	if s.k.delivery.sendDue(s.now); s.k.delivery.digest != digest {
		t.Error("it is not sent to the last one")
	}
	if changed := s.k.delivery.sendDue(s.now + s.k.deadlines.deliveryReserve()); !changed || s.k.delivery.digest != [32]byte{} {
		t.Error("a leader that does not take it is waited for beyond the time for that")
	}
}

// An acknowledgement to a later leader long after the goodbye gets its time, too.
func TestLaterLeaderGetsAcknowledgementAfterAGoodbye(t *testing.T) {
	s := newHookStage(t, 2)
	s.releases()
	s.k.inputs.restartsInPlace, s.k.deadlines.restartsInPlace, s.k.deadlines.goodbye = true, true, s.now
	s.now += time.Minute
	s.k.prepareReleases(s.now, s.see.drainingEpoch)
	if s.k.delivery.sendDue(s.now); len(s.got) != 1 || s.k.delivery.digest == [32]byte{} {
		t.Errorf("%d deliveries", len(s.got))
	}
}

// A leader that fails, or does not receive the releases, delays nothing: after release-timeout
// the acknowledgement has no releases. A later answer changes nothing.
func TestUnconfirmedReleasesAreDiscarded(t *testing.T) {
	for _, taken := range []bool{false, true} {
		s := newHookStage(t, 2)
		s.releases()
		s.k.prepareReleases(s.now, s.see.drainingEpoch)
		if s.k.delivery.sendDue(s.now); s.k.delivery.digest == [32]byte{} || len(s.got) != 1 {
			t.Fatalf("%d deliveries", len(s.got))
		}
		s.k.delivery.recordHeartbeat(1)
		s.k.handleAnswer(0, ack.Answer{ReleasesReceived: true, HeartbeatNumber: 1, Epoch: s.see.drainingEpoch - 1}, false) // of another proposal
		if taken {
			s.k.handleAnswer(0, ack.Answer{ReleasesReceived: true, HeartbeatNumber: 1, Epoch: s.see.drainingEpoch}, false)
		}
		s.k.delivery.sendDue(s.now + resendInterval)
		if again := len(s.got) - 1; (again == 1) == taken {
			t.Errorf("sent %d times more, though taken is %v", again, taken)
		}
		if changed := s.k.delivery.sendDue(s.now + 4*time.Second); changed == taken || (s.k.delivery.digest == [32]byte{}) == taken {
			t.Errorf("after release-timeout the digest is gone: %v, though taken is %v", changed, taken)
		}
	}
}

// A restart in place collects the releases of a proposal again. A response to a heartbeat from before that
// refers to the earlier releases, so it must not end the delivery of the new ones.
func TestResponseToEarlierHeartbeatConfirmsNoReleases(t *testing.T) {
	s := newHookStage(t, 2)
	s.releases()
	s.k.prepareReleases(s.now, s.see.drainingEpoch)
	s.k.delivery.recordHeartbeat(7)
	s.k.prepareReleases(s.now, s.see.drainingEpoch)
	received := ack.Answer{ReleasesReceived: true, HeartbeatNumber: 7, Epoch: s.see.drainingEpoch}
	if s.k.handleAnswer(s.now, received, false); s.k.delivery.confirmed {
		t.Error("confirmed before a heartbeat contained the new digest")
	}
	s.k.delivery.recordHeartbeat(8)
	s.k.delivery.recordHeartbeat(9)
	if s.k.handleAnswer(s.now, received, false); s.k.delivery.confirmed {
		t.Error("confirmed by the response to a heartbeat with the earlier digest")
	}
	received.HeartbeatNumber = 8
	if s.k.handleAnswer(s.now, received, false); !s.k.delivery.confirmed {
		t.Error("not confirmed by the response to the first heartbeat with the digest")
	}
}
