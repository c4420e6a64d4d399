package ack

import (
	"bytes"
	"reflect"
	"testing"
)

// releasesOfA returns the releases of node a for proposal 9.
func releasesOfA(shards ...Released) Releases {
	return Releases{FormatVersion: MinFormatVersion, Node: "a", Server: "a/1", Boot: 7, Proposal: 9, Shards: shards}
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
