package ack_test

import (
	"bytes"
	"errors"
	"testing"

	"shardway/ack"
	"shardway/shardmap"
)

// old is a state without a map.
func old(t *testing.T) *ack.State {
	t.Helper()
	s, _, err := ack.NewState().Apply(2, 1, ack.EncodeBootstrap("c1", 16, ack.DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRecoveredStateIsAboveEverything(t *testing.T) {
	s := old(t)
	floor := s.MaxIndex() + ack.MinIndexGap
	n, err := s.Recovered("c2", floor)
	if err != nil {
		t.Fatal(err)
	}
	if n.ClusterID() != "c2" || n.Shards() != 16 || n.Index() != floor || n.HasOpenProposal() {
		t.Errorf("recovered: cluster %q, %d shards, index %d, open %v", n.ClusterID(), n.Shards(), n.Index(), n.HasOpenProposal())
	}
	for name, f := range map[string]struct {
		cluster string
		floor   uint64
	}{
		"same cluster": {"c1", floor}, "no cluster": {"", floor}, "low floor": {"c2", floor - 1}, "overflow": {"c2", 0},
	} {
		if _, err := s.Recovered(f.cluster, f.floor); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := ack.NewState().Recovered("c2", floor); err == nil {
		t.Error("a state without a cluster was recovered")
	}
}

// No ownership epoch survives: the shard may have had other owners since, whose epochs a store
// behind the app has seen.
func TestRecoveryMakesAllOwnershipEpochsNew(t *testing.T) {
	l := serving(t, "a", "b")
	l.actor("a").busy = true // it does not acknowledge what follows
	l.start("c")
	l.actor("c").follows, l.actor("c").term = "a", l.term
	l.until("a proposal is open", func() bool { return l.state.HasOpenProposal() })
	m := l.state.Committed()
	floor := l.state.MaxIndex() + ack.MinIndexGap
	n, err := l.state.Recovered("c2", floor)
	if err != nil {
		t.Fatal(err)
	}
	if n.HasOpenProposal() || uint64(n.Committed().Epoch()) != floor {
		t.Errorf("open %v, epoch %d, want a committed map of epoch %d", n.HasOpenProposal(), n.Committed().Epoch(), floor)
	}
	for s := range shardmap.Shard(m.Len()) {
		if got := n.Committed().Owner(s); got != m.Owner(s) {
			t.Errorf("Owner(%d) = %q, want %q: placement is kept", s, got, m.Owner(s))
		}
		if e := n.Committed().OwnedSince(s); uint64(e) != floor {
			t.Errorf("OwnedSince(%d) = %d, want %d", s, e, floor)
		}
	}
}

func TestBackupRoundTrip(t *testing.T) {
	s := old(t)
	b, err := s.Backup()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ack.OpenBackup(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := got.Backup()
	if err != nil || !bytes.Equal(b, again) {
		t.Errorf("another backup after reading the first: %v", err)
	}
	if _, err := ack.NewState().Backup(); err == nil {
		t.Error("a state without a cluster has a backup")
	}
}

func TestDamagedBackupIsRefused(t *testing.T) {
	b, err := old(t).Backup()
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 0x40
		if _, err := ack.OpenBackup(bad); !errors.Is(err, ack.ErrNoBackup) {
			t.Errorf("byte %d changed: %v, want ErrNoBackup", i, err)
		}
		if _, err := ack.OpenBackup(b[:i]); !errors.Is(err, ack.ErrNoBackup) {
			t.Errorf("cut after %d bytes: %v, want ErrNoBackup", i, err)
		}
	}
}
