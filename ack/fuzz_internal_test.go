package ack

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"shardway/shardmap"
)

// External input of any content is decoded without a crash. Accepted input has only one
// encoding, so nodes with the same state hold the same bytes.

// fuzzMembers returns the members of the seeds.
func fuzzMembers(n int) []shardmap.Member {
	var all []shardmap.Member
	for i := range n {
		all = append(all, shardmap.Member{ID: shardmap.NodeID(rune('a' + i)), Weight: 1})
	}
	return all
}

// fuzzLog returns the log of a small cluster: bootstrapped, one map committed, one proposed.
func fuzzLog(tb testing.TB) [][]byte {
	tb.Helper()
	log := [][]byte{EncodeBootstrap("c1", 8, DefaultTiming())}
	s := NewState()
	add := func(b []byte, err error) {
		if err != nil {
			tb.Fatal(err)
		}
		log = append(log, b)
	}
	apply := func() {
		next, _, err := s.Apply(uint64(len(log)), 1, log[len(log)-1])
		if err != nil {
			tb.Fatal(err)
		}
		s = next
	}
	apply()
	add(EncodeProposal(MinFormatVersion, ProposalEntry{Term: 1, Reason: "join", Want: shardmap.Assign(s.Committed(), fuzzMembers(3), shardmap.Policy{})}))
	apply()
	add(EncodeCommit(MinFormatVersion, CommitEntry{Epoch: s.Proposed().Epoch(), Digest: s.Proposed().Digest()}), nil)
	apply()
	add(EncodeProposal(MinFormatVersion, ProposalEntry{
		Term: 1, Base: s.Committed().Epoch(), Want: shardmap.Assign(s.Committed(), fuzzMembers(2), shardmap.Policy{}),
		Drops: []DropRecord{{Node: "c", Cause: CauseSilent, ConsecutiveDrops: 1}},
	}))
	apply()
	add(EncodePolicyChange(MinFormatVersion, PolicyEntry{Term: 1, Changes: []Change{
		{Kind: ChangeCordon, Node: "a"},
		{Kind: ChangeDrain, Node: "b"},
		{Kind: ChangeUncordon, Node: "a"},
		{Kind: ChangeWeight, Node: "b", Weight: 7},
		{Kind: ChangePin, Shard: 3, Node: "b"},
		{Kind: ChangePin, Shard: 4, Zone: "z"},
		{Kind: ChangeUnpin, Shard: 3},
		{Kind: ChangeForgetNode, Node: "c"},
		{Kind: ChangeResume},
		{Kind: ChangePause, Duration: time.Hour},
	}}), nil)
	apply()
	if p := s.Policy(); !p.Drained["b"] || len(p.Pins) != 1 || p.Pause != time.Hour {
		tb.Fatalf("the seed is not what it says: %+v", *p)
	}
	if !s.HasOpenProposal() || !s.IsDropped("c") {
		tb.Fatal("the seed is not what it says")
	}
	return log
}

func FuzzApply(f *testing.F) {
	log := fuzzLog(f)
	for i := range log {
		f.Add(log[i], uint64(i+1), uint64(1))
	}
	f.Add([]byte{byte(MinFormatVersion), kindProposal}, uint64(1), uint64(1))
	f.Add(EncodeFormatVersion(MinFormatVersion, FormatVersionEntry{Term: 1, Version: MinFormatVersion}), uint64(9), uint64(1))
	f.Add(EncodeFormatVersion(MinFormatVersion, FormatVersionEntry{Term: 1, Version: MaxFormatVersion + 1}), uint64(9), uint64(1))
	f.Add([]byte{byte(MaxFormatVersion) + 1}, uint64(9), uint64(9))
	f.Add(EncodeBootstrap("c", 6, DefaultTiming(), ServiceSpec{"chat", 4}, ServiceSpec{"mail", 2}), uint64(1), uint64(1))
	f.Add(EncodePolicyChange(MaxFormatVersion, PolicyEntry{Term: 1, Changes: []Change{
		{Kind: ChangeAddService, Service: "chat", Shards: 4}, {Kind: ChangeRemoveService, Service: "default"},
	}}), uint64(9), uint64(1))
	f.Add([]byte(nil), ^uint64(0), ^uint64(0))
	f.Fuzz(func(t *testing.T, entry []byte, index, term uint64) {
		s := NewState()
		for i := range len(log) + 1 { // before each step of a cluster's life
			before := mustEncode(t, s)
			next, _, err := s.Apply(max(index, s.Index()+1), term, entry) // Raft's indexes grow
			switch {
			case err != nil && !errors.Is(err, ErrCorrupt):
				t.Fatalf("after %d entries: %v is not ErrCorrupt", i, err)
			case err == nil:
				checkSnapshot(t, next)
			}
			if !bytes.Equal(mustEncode(t, s), before) {
				t.Fatalf("after %d entries: Apply changed the state it was given", i)
			}
			if i == len(log) {
				return
			}
			if s, _, err = s.Apply(uint64(i+1), 1, log[i]); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// checkSnapshot restores a state from its own snapshot.
func checkSnapshot(t *testing.T, s *State) {
	t.Helper()
	b := mustEncode(t, s)
	again, err := DecodeState(b)
	if err != nil {
		t.Fatalf("a snapshot of what was applied cannot be restored: %v", err)
	}
	if !bytes.Equal(mustEncode(t, again), b) {
		t.Fatal("a restored state has another snapshot")
	}
}

func mustEncode(tb testing.TB, s *State) []byte {
	tb.Helper()
	b, err := s.MarshalBinary()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func FuzzDecodeState(f *testing.F) {
	s := NewState()
	f.Add(mustEncode(f, s))
	for i, entry := range fuzzLog(f) {
		var err error
		if s, _, err = s.Apply(uint64(i+1), 1, entry); err != nil {
			f.Fatal(err)
		}
		f.Add(mustEncode(f, s))
	}
	s, _, err := s.Apply(s.Index()+1, 1, EncodeCommit(MinFormatVersion, CommitEntry{Epoch: s.Proposed().Epoch(), Digest: s.Proposed().Digest()}))
	if err != nil || s.PreviousOwner(0)+s.PreviousOwner(1)+s.PreviousOwner(2) == "" {
		f.Fatalf("%v, or nobody follows c", err)
	}
	f.Add(mustEncode(f, s))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeState(b)
		if err != nil {
			if s != nil || !errors.Is(err, ErrCorrupt) {
				t.Fatalf("DecodeState = %v, %v", s, err)
			}
			return
		}
		if again := mustEncode(t, s); !bytes.Equal(again, b) {
			t.Fatalf("two encodings of one state: %x and %x", b, again)
		}
		// It can be gone on from.
		if _, _, err := s.Apply(s.Index()+1, 1, EncodeBootstrap("c2", 4, DefaultTiming())); err != nil {
			t.Fatalf("a restored state takes no entry: %v", err)
		}
	})
}

func FuzzOpenBackup(f *testing.F) {
	s, _, err := NewState().Apply(1, 1, EncodeBootstrap("c1", 8, DefaultTiming()))
	if err != nil {
		f.Fatal(err)
	}
	b, err := s.Backup()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := OpenBackup(b)
		if err != nil {
			if !errors.Is(err, ErrNoBackup) {
				t.Fatalf("%v is not ErrNoBackup", err)
			}
			return
		}
		checkSnapshot(t, s)
	})
}

func FuzzHeartbeat(f *testing.F) {
	for _, h := range []Heartbeat{
		heartbeatWithServices(),
		{Node: "a", Server: "a/d1", Boot: 1, Nonce: 7, Number: 1, Weight: 1},
		{Node: "b", Boot: maxUint, Number: maxUint, Echo: Echo{3, 4}, Term: 5, Applied: 6, Acked: 7, Interval: maxUint32 * time.Millisecond, Weight: maxWeight, ReleaseTime: MaxReleaseTimeout, Leaving: true, Goodbye: true},
		{Node: "c", Boot: 1, Weight: 1, FormatVersion: InstancesFormatVersion, Instances: shardmap.InstancesUpTo(3), InstancesStartedAfter: []shardmap.Epoch{0, maxUint}, UnhealthyInstances: 1 << 1},
		{Node: "d", Boot: 1, Weight: 1, FormatVersion: InstancesFormatVersion, Instances: shardmap.InstanceSet(1 << 31), InstancesStartedAfter: make([]shardmap.Epoch, shardmap.MaxInstances-1), UnhealthyInstances: 1 << 1, RemovedInstances: 1 << 2},
		{Node: "e", Server: "e/1", Boot: 1, Number: 1, Weight: 1, FormatVersion: PeerReportsFormatVersion, Unreachable: []shardmap.NodeID{"a", "b"}},
		{Node: "f", Server: "f/1", Boot: 1, Number: 1, Weight: 1, FormatVersion: PeerReportsFormatVersion, Instances: shardmap.InstancesUpTo(3), Unreachable: []shardmap.NodeID{"a"}},
	} {
		b, err := h.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Heartbeat
		if err := h.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		again, err := h.MarshalBinary()
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x became %x, %v", b, again, err)
		}
		if len(again) > MaxMessage {
			t.Fatalf("a heartbeat of %d bytes, longer than MaxMessage", len(again))
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, a := range []Answer{
		{Term: 1, Number: 2, Boot: 3, HeartbeatNumber: 4, OK: true, Epoch: 5, ServeFor: DefaultTiming().Lease, AbortAfter: DefaultTiming().DeadAfter, LeaseDuration: DefaultTiming().Lease},
		{Boot: 1, Refusal: RefusedDuplicate, KnownBoot: 9, DuplicateAddr: "10.0.0.1:7947", MapUnchanged: true},
	} {
		b, err := a.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var a Answer
		if err := a.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		again, err := a.MarshalBinary()
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x became %x, %v", b, again, err)
		}
		if a.ServeFor < 0 || a.ServeFor > MaxLease || a.AbortAfter < a.ServeFor || a.LeaseDuration < a.ServeFor || len(again) > MaxMessage {
			t.Fatalf("out of bounds: %+v", a)
		}
	})
}
