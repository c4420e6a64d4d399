package ack

import (
	"bytes"
	"reflect"
	"testing"
)

// releasesOfA returns the releases of node a for proposal 9.
func releasesOfA(shards ...Released) Releases {
	return Releases{Level: MinLevel, Node: "a", Server: "a/1", Boot: 7, Proposal: 9, Shards: shards}
}

func TestReleasesTravelAsTheyAre(t *testing.T) {
	for _, r := range []Releases{
		releasesOfA(),
		releasesOfA(Released{Shard: 0}, Released{Shard: 1, Note: []byte("x")}, Released{Shard: MaxShards - 1, From: "b", Note: bytes.Repeat([]byte{1}, MaxNote)}),
		releasesOfA(Released{Shard: 3, From: "c"}, Released{Shard: 4, From: "b"}, Released{Shard: 5, From: "c"}),
	} {
		b, _ := r.MarshalBinary()
		var got Releases
		if err := got.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(got, r) || got.Digest() != r.Digest() {
			t.Errorf("%+v became %+v, %v", r, got, err)
		}
	}
	one, other := releasesOfA(Released{Shard: 3}), releasesOfA(Released{Shard: 3})
	for _, change := range []func(){
		func() { other.Server = "a/2" }, func() { other.Boot++ }, func() { other.Proposal++ }, func() { other.Shards[0].Note = []byte("x") }, func() { other.Shards[0].From = "b" },
	} {
		change()
		if one.Digest() == other.Digest() {
			t.Errorf("%+v and %+v have one digest", one, other)
		}
		other = releasesOfA(Released{Shard: 3})
	}
}

func FuzzReleases(f *testing.F) {
	for _, r := range []Releases{releasesOfA(), releasesOfA(Released{Shard: 3, From: "c", Note: []byte("n")}, Released{Shard: 70, Note: []byte("m")})} {
		b, _ := r.MarshalBinary()
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Releases
		if r.UnmarshalBinary(b) != nil {
			return
		}
		if again, _ := r.MarshalBinary(); !bytes.Equal(again, b) {
			t.Errorf("%x reads as %+v, which is %x", b, r, again)
		}
		for i, x := range r.Shards {
			if len(x.Note) > MaxNote || i > 0 && x.Shard <= r.Shards[i-1].Shard {
				t.Errorf("%+v", r.Shards)
			}
		}
	})
}

// The digest in the newest heartbeat selects the valid releases, of the same server, boot and
// acknowledgement.
func TestReleasesAreBound(t *testing.T) {
	r := releasesOfA(Released{Shard: 3})
	beat := Heartbeat{Node: "a", Server: "a/1", Boot: 7, Acked: 9, Released: r.Digest()}
	n := member{id: "a", heartbeat: beat}
	if n.hasReleases() || n.ackCounts(9) || !n.hasAcked(9) {
		t.Error("an acknowledgement counts before its releases have come")
	}
	n.storeReleases(r)
	if !n.hasReleases() || !n.ackCounts(9) {
		t.Error("an acknowledgement does not count though its releases have come")
	}
	for what, change := range map[string]func(*Heartbeat){
		"another disk":             func(h *Heartbeat) { h.Server = "a/2" },
		"another boot":             func(h *Heartbeat) { h.Boot = 8 },
		"another acknowledgement":  func(h *Heartbeat) { h.Acked = 10 },
		"other releases":           func(h *Heartbeat) { h.Released[0]++ },
		"nothing that is given up": func(h *Heartbeat) { h.Released = [32]byte{} },
	} {
		n.heartbeat = beat
		change(&n.heartbeat)
		if n.hasReleases() {
			t.Errorf("%s, and the releases pass on", what)
		}
	}
	// Late releases do not replace it, because the node has its confirmation.
	n.heartbeat = beat
	for _, late := range []func(*Releases){
		func(r *Releases) { r.Proposal = 8 }, func(r *Releases) { r.Boot = 6 }, func(r *Releases) { r.Server = "a/0" },
	} {
		old := releasesOfA(Released{Shard: 3})
		late(&old)
		if n.storeReleases(old); !n.hasReleases() {
			t.Errorf("%+v came late, and the releases are gone", old)
		}
	}
	// Releases of the next process on this disk are not late, even before its heartbeat.
	next := releasesOfA(Released{Shard: 3})
	next.Boot = 8
	n.storeReleases(next)
	if n.heartbeat = (Heartbeat{Node: "a", Server: "a/1", Boot: 8, Acked: 9, Released: next.Digest()}); !n.hasReleases() {
		t.Error("what the next process gives up is taken for late")
	}
	n.heartbeat.Released = [32]byte{}
	if !n.ackCounts(9) {
		t.Error("an acknowledgement that gives up nothing does not count")
	}
}
