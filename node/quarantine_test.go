package node_test

import (
	"slices"
	"testing"

	"shardway/admin/api"
)

// refusing reports whether all nodes have n keys in quarantine and refuse requests for them.
func (w *world) refusing(n int) bool {
	for _, p := range w.running() {
		q := p.node.API().Policy().Quarantined
		if len(q) != n || slices.ContainsFunc(q, func(k api.QuarantinedKey) bool { return !k.Known }) {
			return false
		}
	}
	return true
}

// A quarantine reaches all nodes, also later ones, ends automatically, and is shown in the status.
func TestQuarantineIsOnEveryNode(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		p := w.follower()
		shard, hash := p.node.Mark("alice")
		w.asks(p, api.Action{Verb: api.Quarantine, Shard: shard, Hash: hash, For: "20s"})
		shard, hash = p.node.Mark("bob")
		w.asks(p, api.Action{Verb: api.Quarantine, Shard: shard, Hash: hash})
		w.until("all refuse", func() bool { return w.refusing(2) })
		w.untilFindingsAre(p, "quarantined: 2 keys are in quarantine")
		q := w.follower()
		q.kill()
		w.untilSettled(w.others(q)...)
		q.wipe()
		q.restart()
		w.until("the new one refuses, too", func() bool { return q.started() && w.refusing(2) })
		w.until("the first is over", func() bool { return w.refusing(1) })
		w.refused(w.leader(), api.Action{Verb: api.Lift, Shard: shard + 1, Hash: hash}, api.ErrRefused, "no such key")
		w.asks(w.follower(), api.Action{Verb: api.Lift, Shard: shard, Hash: hash})
		w.until("the second is lifted", func() bool { return w.refusing(0) })
	})
}

// The list is sorted, and shows the duration of each quarantine.
func TestQuarantinedKeysAreListedInOrder(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.start("a")
		a := w.all["a"]
		w.untilSettled("a")
		want := []api.QuarantinedKey{}
		for _, shard := range []uint32{3, 9} {
			for i, hash := range []string{"0000000000000001", "000000000000000a", "0123456789abcdef", "f000000000000000"} {
				want = append(want, api.QuarantinedKey{Shard: shard, Hash: hash, For: []string{"", "1h"}[i%2], Known: true})
			}
		}
		for _, k := range slices.Backward(want) {
			w.asks(a, api.Action{Verb: api.Quarantine, Shard: k.Shard, Hash: k.Hash, For: k.For})
		}
		if got := a.node.API().Policy().Quarantined; !slices.Equal(got, want) {
			w.t.Errorf("listed %+v, want %+v", got, want)
		}
	})
}

// Key hashes depend on the secret. Once it is replaced, quarantined hashes match no key: the status reports that, and a key that is
// quarantined again is refused.
func TestQuarantineOfPreviousSecretIsReported(t *testing.T) {
	t.Parallel()
	sealed(t, func(w *world, v *vault) {
		v.three()
		shard, hash := w.leader().node.Mark("alice")
		w.asks(w.leader(), api.Action{Verb: api.Quarantine, Shard: shard, Hash: hash})
		w.until("all refuse", func() bool { return w.refusing(1) })
		var err error
		w.during(func() { _, err = w.follower().node.Rotate(w.t.Context(), "the test") })
		if err != nil {
			w.t.Fatal(err)
		}
		w.untilFindingsAre(w.leader(), "quarantine-stale: 1 key in quarantine is not refused")
		_, again := w.leader().node.Mark("alice")
		if again == hash {
			w.t.Error("another secret gives the same hash")
		}
		w.asks(w.leader(), api.Action{Verb: api.Lift, Shard: shard, Hash: hash})
		w.asks(w.leader(), api.Action{Verb: api.Quarantine, Shard: shard, Hash: again})
		w.until("all refuse again", func() bool { return w.refusing(1) })
	})
}
