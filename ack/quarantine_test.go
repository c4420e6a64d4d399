package ack_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

func quarantine(hash uint64, d time.Duration) ack.Change {
	return ack.Change{Kind: ack.ChangeQuarantine, KeyFingerprint: ack.KeyFingerprint{Shard: 3, Hash: hash, HashKeyID: 7}, Duration: d}
}

// quarantined returns the quarantined hashes.
func (s *stage) quarantined() map[uint64]bool {
	all := map[uint64]bool{}
	for m := range s.state.Policy().Quarantined {
		all[m.Hash] = true
	}
	return all
}

// A quarantine lasts at least as long as requested, with any leader. A quarantine without an
// end lasts until it is lifted. It moves no shards.
func TestQuarantineExpires(t *testing.T) {
	s := serving(t, "a", "b", "c")
	epoch := s.state.Proposed().Epoch()
	s.changePolicy("a", quarantine(1, 20*time.Second), quarantine(2, 0), quarantine(3, 5*time.Second))
	s.until("3 is over", func() bool { return !s.quarantined()[3] })
	if last := s.state.Proposed().Epoch(); last != epoch {
		t.Errorf("map %d was proposed for a quarantine", last)
	}
	s.changePolicy("a", quarantine(1, 20*time.Second)) // again
	s.run(18 * time.Second)
	if got := s.quarantined(); !maps.Equal(got, map[uint64]bool{1: true, 2: true}) {
		t.Errorf("18s after it was asked for again: %v", got)
	}
	s.elect("b") // which starts again
	s.run(18 * time.Second)
	if !s.quarantined()[1] {
		t.Error("a new leader ended it before its time")
	}
	s.until("1 is over", func() bool { return !s.quarantined()[1] })
	s.run(10 * time.Minute)
	if !s.quarantined()[2] {
		t.Error("one without an end has ended")
	}
	// A hash under another key is lifted, too: it was that key's name when it was asked for.
	s.changePolicy("b", ack.Change{Kind: ack.ChangeEndQuarantine, KeyFingerprint: ack.KeyFingerprint{Shard: 3, Hash: 2, HashKeyID: 8}})
	s.until("2 is lifted", func() bool { return len(s.quarantined()) == 0 })
}

// A quarantined key may have caused the failure of the cluster.
func TestQuarantineOutlivesTheCluster(t *testing.T) {
	s := serving(t, "a")
	s.changePolicy("a", quarantine(1, time.Hour), drain("a"))
	s.until("asked", func() bool { return len(s.quarantined()) == 1 })
	again, err := s.state.Recovered("another", s.state.MaxIndex()+ack.MinIndexGap)
	if err != nil {
		t.Fatal(err)
	}
	b, err := again.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if again, err = ack.DecodeState(b); err != nil {
		t.Fatal(err)
	}
	if p := again.Policy(); !maps.Equal(p.Quarantined, s.state.Policy().Quarantined) || len(p.Drained) != 0 {
		t.Errorf("recovered: %+v", *p)
	}
}

func TestQuarantinesAreBounded(t *testing.T) {
	p, err := &ack.Policy{}, error(nil)
	n := 0
	for err == nil && n < 1e5 {
		var some []ack.Change
		for range 32 {
			some = append(some, ack.Change{
				Kind: ack.ChangeQuarantine, KeyFingerprint: ack.KeyFingerprint{Shard: shardmap.Shard(n % ack.MaxShards), Hash: ^uint64(n), HashKeyID: ^uint32(0)}, Duration: ack.MaxQuarantine,
			})
			n++
		}
		p, err = p.With(uint64(n), some)
	}
	if !errors.Is(err, ack.ErrPolicyFull) || n < 1500 {
		t.Errorf("%d keys, %v; want some thousands at most", n, err)
	}
}
