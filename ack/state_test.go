package ack_test

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// apply applies an entry of term 1 and fails the test on an error.
func apply(t *testing.T, s *ack.State, index uint64, entry []byte, want ack.Outcome) *ack.State {
	t.Helper()
	next, outcome, err := s.Apply(index, 1, entry)
	if err != nil || outcome != want {
		t.Fatalf("entry %d: outcome %d, %v, want %d", index, outcome, err, want)
	}
	return next
}

// entries returns the state of a cluster of two in which c was dropped, and a proposal and its
// commit that are not applied yet.
func entries(t *testing.T) (s *ack.State, proposal, commit []byte) {
	t.Helper()
	st := serving(t, "a", "b", "c")
	st.crash("c")
	st.run(3500 * 1e6)
	st.stuck = true
	st.actor("b").leaving = true
	st.until("a proposal on its way", func() bool { return len(st.waiting) > 0 })
	s, proposal = st.state, st.waiting[0].entry
	st.flush()
	st.until("a commit on its way", func() bool { return len(st.waiting) > 0 })
	return s, proposal, st.waiting[0].entry
}

func TestOnlyTheFirstBootstrapCounts(t *testing.T) {
	s := ack.NewState()
	if s.Bootstrapped() || s.Shards() != 0 || s.ClusterID() != "" {
		t.Errorf("before its birth: %q with %d shards", s.ClusterID(), s.Shards())
	}
	s = apply(t, s, 1, ack.EncodeBootstrap("first", 64, ack.DefaultTiming()), ack.OutcomeBootstrapped)
	s = apply(t, s, 2, ack.EncodeBootstrap("second", 8, ack.DefaultTiming()), ack.OutcomeIgnored)
	if s.ClusterID() != "first" || s.Shards() != 64 || s.Committed().OrphanCount() != 64 || s.IgnoredEntries() != 1 {
		t.Errorf("%q with %d shards, %d ignored", s.ClusterID(), s.Shards(), s.IgnoredEntries())
	}
}

func TestApplyChangesNothingInPlace(t *testing.T) {
	s, proposal, _ := entries(t)
	before, _ := s.MarshalBinary()
	apply(t, s, s.Index()+1, proposal, ack.OutcomeProposed)
	if after, _ := s.MarshalBinary(); !bytes.Equal(before, after) {
		t.Error("Apply changed the state it was called on")
	}
}

func TestProposalFromAnotherMapIsVoid(t *testing.T) {
	s, proposal, commit := entries(t)
	fresh := apply(t, ack.NewState(), 1, ack.EncodeBootstrap("demo", 12, ack.DefaultTiming()), ack.OutcomeBootstrapped)
	apply(t, fresh, 2, proposal, ack.OutcomeIgnored)
	apply(t, ack.NewState(), 1, proposal, ack.OutcomeIgnored)
	at := s.Index() + 1
	s = apply(t, s, at, proposal, ack.OutcomeProposed)
	s = apply(t, s, at+1, proposal, ack.OutcomeProposed) // from the same map: it replaces the first
	s = apply(t, s, at+2, commit, ack.OutcomeIgnored)    // of the first
	if s.IgnoredEntries() != 1 || s.Proposed().Epoch() != shardmap.Epoch(at+1) || !s.HasOpenProposal() {
		t.Errorf("last %d, open %v, %d ignored", s.Proposed().Epoch(), s.HasOpenProposal(), s.IgnoredEntries())
	}
}

func TestCommitCountsOnce(t *testing.T) {
	s, proposal, commit := entries(t)
	at := s.Index() + 1
	apply(t, s, at, commit, ack.OutcomeIgnored) // nothing is proposed
	s = apply(t, s, at, proposal, ack.OutcomeProposed)
	bad := bytes.Clone(commit)
	bad[len(bad)/2] ^= 1
	apply(t, s, at+1, bad, ack.OutcomeIgnored) // another digest
	s = apply(t, s, at+1, commit, ack.OutcomeCommitted)
	apply(t, s, at+2, commit, ack.OutcomeIgnored)
	if s.HasOpenProposal() || s.Committed() != s.Proposed() || s.Committed().Epoch() != shardmap.Epoch(at) {
		t.Errorf("open %v, committed %d, want %d", s.HasOpenProposal(), s.Committed().Epoch(), at)
	}
}

func TestDropIsRememberedUntilTheNodeIsProposedAgain(t *testing.T) {
	st := serving(t, "a", "b", "c")
	st.crash("c")
	st.until("c is dropped", func() bool { return st.state.IsDropped("c") })
	d, ok := st.state.Drop("c")
	if !ok || d.Cause != ack.CauseSilent || d.Epoch != st.state.Proposed().Epoch() || !d.InForce || d.ConsecutiveDrops != 0 {
		t.Errorf("drop %+v %v, want one for silence in %d", d, ok, st.state.Proposed().Epoch())
	}
	epoch := d.Epoch
	st.begin("c")
	st.until("c serves", func() bool { return st.serves("c") })
	if d, ok = st.state.Drop("c"); !ok || d.InForce || d.Epoch != epoch {
		t.Errorf("drop %+v %v, want the old one, not in force", d, ok)
	}
	if _, ok := st.state.Drop("a"); ok {
		t.Error("a was never dropped")
	}
}

func TestSnapshotContainsTheWholeState(t *testing.T) {
	s, proposal, commit := entries(t)
	open := apply(t, s, s.Index()+1, proposal, ack.OutcomeProposed)
	for name, s := range map[string]*ack.State{"new": ack.NewState(), "served": s, "open": open} {
		b, err := s.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ack.DecodeState(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := got.MarshalBinary()
		if err != nil || !bytes.Equal(b, again) {
			t.Errorf("%s: other bytes after reading: %v", name, err)
		}
		if got.HasOpenProposal() != s.HasOpenProposal() || got.Proposed().Digest() != s.Proposed().Digest() || got.Committed().Digest() != s.Committed().Digest() ||
			got.ProposedTerm() != s.ProposedTerm() || got.Index() != s.Index() || got.IgnoredEntries() != s.IgnoredEntries() || got.IsDropped("c") != s.IsDropped("c") {
			t.Errorf("%s: read %+v, want %+v", name, got, s)
		}
	}
	b, _ := open.MarshalBinary()
	got, _ := ack.DecodeState(b)
	apply(t, got, open.Index()+1, commit, ack.OutcomeCommitted) // the round goes on after a restart
}

// A truncated, extended or modified encoding must be refused, or decode to a value with
// exactly this encoding.
func TestDecodersRefuseCorruptInput(t *testing.T) {
	s, proposal, commit := entries(t)
	snapshot, _ := s.MarshalBinary()
	hb, _ := ack.Heartbeat{Node: "n", Server: "n/d", Boot: 1, Number: 2, Weight: 3, Leaving: true}.MarshalBinary()
	answer, _ := ack.Answer{Term: 1, Number: 2, Boot: 3, HeartbeatNumber: 4, OK: true, ServeFor: 5, AbortAfter: 6, LeaseDuration: 7, DuplicateAddr: "x"}.MarshalBinary()
	for _, c := range []struct {
		name   string
		b      []byte
		decode func(b []byte) error
	}{
		{"proposal", proposal, func(b []byte) error { _, _, err := s.Apply(99, 1, b); return err }},
		{"commit", commit, func(b []byte) error { _, _, err := s.Apply(99, 1, b); return err }},
		{"birth", ack.EncodeBootstrap("x", 5, ack.DefaultTiming()), func(b []byte) error { _, _, err := s.Apply(99, 1, b); return err }},
		{"snapshot", snapshot, func(b []byte) error { _, err := ack.DecodeState(b); return err }},
		{"heartbeat", hb, func(b []byte) error { return new(ack.Heartbeat).UnmarshalBinary(b) }},
		{"answer", answer, func(b []byte) error { return new(ack.Answer).UnmarshalBinary(b) }},
	} {
		if err := c.decode(c.b); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for i := range c.b {
			if err := c.decode(c.b[:i]); !errors.Is(err, ack.ErrCorrupt) {
				t.Errorf("%s cut to %d bytes: %v, want ErrCorrupt", c.name, i, err)
			}
		}
		if err := c.decode(append(bytes.Clone(c.b), 0)); !errors.Is(err, ack.ErrCorrupt) {
			t.Errorf("%s with a byte more: %v, want ErrCorrupt", c.name, err)
		}
		newer := bytes.Clone(c.b)
		newer[0] = 9
		if err := c.decode(newer); !errors.Is(err, ack.ErrCorrupt) || !strings.Contains(err.Error(), "format version 9, and this program supports "+ack.SupportedFormatVersions()) {
			t.Errorf("%s of format version 9: %v, want both numbers", c.name, err)
		}
	}
	next, outcome, err := s.Apply(99, 1, []byte{byte(ack.MinFormatVersion), 77})
	if !errors.Is(err, ack.ErrCorrupt) || outcome != 0 || next != s {
		t.Errorf("an entry of kind 77: %v, outcome %d", err, outcome)
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	h := ack.Heartbeat{
		FormatVersion: ack.MaxFormatVersion, Node: "node", Server: "node/disk", Boot: 1 << 40, Nonce: 1<<64 - 1, Number: 9, Echo: ack.Echo{Term: 3, Number: 4}, Term: 5,
		Applied: 6, Acked: 7, Interval: 8 * time.Millisecond, Weight: 1000, ReleaseTime: 9 * time.Millisecond,
		UnreleasedMoves: 10, WaitingShards: 11, UnacquiredShards: []shardmap.Shard{0, 7, ack.MaxShards - 1}, AcquiresNone: true,
	}
	for i := range 16 {
		h.Unhealthy, h.Leaving, h.Goodbye, h.Gateway = i&1 != 0, i&2 != 0, i&4 != 0, i&8 != 0
		if got := (ack.Heartbeat{}); roundTrip(t, h, &got) != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("read %+v, want %+v", got, h)
		}
	}
	a := ack.Answer{FormatVersion: ack.MaxFormatVersion, Term: 1, Number: 2, Boot: 3, HeartbeatNumber: 4, OK: true, Epoch: 5, ServeFor: 6, AbortAfter: 8, LeaseDuration: 7, MapUnchanged: true, Refusal: ack.RefusedDuplicate, KnownBoot: 7, DuplicateAddr: "10.0.0.1:7"}
	if got := (ack.Answer{}); roundTrip(t, a, &got) != nil || got != a {
		t.Errorf("read %+v, want %+v", got, a)
	}
	// Of the two that share a place, the one that the refusal, or its lack, is about.
	for _, refusal := range []ack.Refusal{0, ack.RefusedBoot} {
		both := ack.Answer{FormatVersion: ack.MaxFormatVersion, Term: 1, Number: 2, Boot: 3, HeartbeatNumber: 4, Refusal: refusal, RestartIndex: 1 << 40, KnownBoot: 1 << 41}
		want := both
		if want.KnownBoot = 0; refusal != 0 {
			want.KnownBoot, want.RestartIndex = both.KnownBoot, 0
		}
		if got := (ack.Answer{}); roundTrip(t, both, &got) != nil || got != want {
			t.Errorf("read %+v, want %+v", got, want)
		}
	}
	a.DuplicateAddr = strings.Repeat("x", 1000)
	if b, _ := a.MarshalBinary(); len(b) > ack.MaxMessage {
		t.Errorf("an answer of %d bytes, at most %d may travel", len(b), ack.MaxMessage)
	}
}

func roundTrip(t *testing.T, from encoding.BinaryMarshaler, to encoding.BinaryUnmarshaler) error {
	t.Helper()
	b, err := from.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return to.UnmarshalBinary(b)
}

func TestCausesHaveNames(t *testing.T) {
	for c, want := range map[ack.DropCause]string{ack.CauseMissedAck: "missed-ack", 0: "Cause(0)", 77: "Cause(77)"} {
		if got := fmt.Sprint(c); got != want {
			t.Errorf("cause %d is called %q, want %q", uint8(c), got, want)
		}
	}
}
