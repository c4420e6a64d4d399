package ack

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"shardway/shardmap"
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

// passOn moves every shard from a to b, the ones in notes released with these notes, the
// others unreleased.
func (s *hookStage) passOn(server string, notes map[shardmap.Shard]string) {
	s.t.Helper()
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	last := s.see.state.Last()
	c := commit{epoch: last.Epoch(), digest: last.Digest(), servers: []string{server}}
	for sh := range shardmap.Shard(s.see.state.Shards()) {
		if n, ok := notes[sh]; ok {
			c.released = append(c.released, Released{Shard: sh, Note: []byte(n)})
		}
	}
	s.entry(encodeCommit(MinLevel, c))
	s.see.draining = 0
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
		s.k = newHooks(s.k.o, "b", test.server, 1)
		s.k.hadLease, s.k.firstLeaseEpoch = true, s.see.state.Committed().Epoch()-1
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

// A recovered cluster does not know what the lost one has done since.
func TestNothingCountsAsReleasedAfterRecovery(t *testing.T) {
	s := newHookStage(t, 2)
	s.passOn("b/1", map[shardmap.Shard]string{0: "", 1: "there"})
	if note, server, ok := s.see.state.Released(1); !ok || server != "b/1" || string(note) != "there" {
		t.Fatalf("%q for %q, %v", note, server, ok)
	}
	r, err := s.see.state.Recovered("c2", s.see.state.MaxIndex()+MinJump)
	if err != nil {
		t.Fatal(err)
	}
	for sh := range shardmap.Shard(2) {
		if _, _, ok := r.Released(sh); ok {
			t.Errorf("shard %d counts as released", sh)
		}
	}
}

// Snapshots contain release notes, for owners only.
func TestSnapshotContainsReleaseNotes(t *testing.T) {
	s := newHookStage(t, 8)
	s.passOn("b/1", map[shardmap.Shard]string{0: "", 3: "there"})
	b, err := s.see.state.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeState(b)
	if err != nil {
		t.Fatal(err)
	}
	for sh := range shardmap.Shard(8) {
		note, server, ok := got.Released(sh)
		wantNote, wantServer, want := s.see.state.Released(sh)
		if ok != want || server != wantServer || string(note) != string(wantNote) {
			t.Errorf("shard %d: %q for %q, %v, want %q for %q, %v", sh, note, server, ok, wantNote, wantServer, want)
		}
	}
	if b = bytes.Replace(b, []byte("b/1"), []byte("c/1"), 1); bytes.Contains(b, []byte("b/1")) {
		t.Fatal("more than one name")
	}
	if _, err = DecodeState(b); err == nil {
		t.Error("a release for a server of nobody's was taken")
	}
}

// The notes of a node, of a commit and of the state are bounded: shards whose notes do not fit
// move unreleased, and the oldest notes are removed first.
func TestNotesAreBounded(t *testing.T) {
	s := newHookStage(t, 1200)
	s.acquire()
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	whole := strings.Repeat("x", MaxNote)
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
	s.k.prepareRelease(s.now, s.see.draining)
	s.k.sendReleases(s.now)
	if len(s.got) != 1 || len(s.got[0].Over) != 200-MaxNoteBytes/MaxNote || len(s.got[0].Shards)+len(s.got[0].Over) != 1200 {
		t.Fatalf("%d deliveries, the first of %d shards without %d", len(s.got), len(s.got[0].Shards), len(s.got[0].Over))
	}
	if s.got[0].Over[0] != MaxNoteBytes/MaxNote {
		t.Errorf("the first that does not fit is %d", s.got[0].Over[0])
	}
	many := map[shardmap.Shard]releaseNote{}
	for sh := range shardmap.Shard(1200) {
		many[sh] = releaseNote{server: "a/1", note: []byte("n")}
	}
	if boundNotes(many, s.see.state.Committed()); len(many) != MaxNotes {
		t.Errorf("%d notes are kept, want %d", len(many), MaxNotes)
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
	s.k.prepareRelease(s.now, s.see.draining)
	s.k.sendReleases(s.now)
	digest := s.k.digest
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
		s.k.answerReceived(s.now, Answer{Taken: test.taken, Term: test.term, Epoch: s.see.draining}, test.parted)
		n := len(s.got)
		if s.k.sendReleases(s.now); (len(s.got) > n) != test.sends {
			t.Errorf("step %d, %s: sent %v", i, test.what, len(s.got) > n)
		}
		s.now += resendInterval
	}
	s.k.answerReceived(s.now, Answer{Term: 6, Epoch: s.see.draining}, true)
	if s.k.sendReleases(s.now); s.k.digest != digest {
		t.Error("it is not sent to the last one")
	}
	if changed := s.k.sendReleases(s.now + s.k.deliverTime()); !changed || s.k.digest != [32]byte{} {
		t.Error("a leader that does not take it is waited for beyond the time for that")
	}
}

// An acknowledgement to a later leader long after the goodbye gets its time, too.
func TestLaterLeaderGetsAcknowledgementAfterAGoodbye(t *testing.T) {
	s := newHookStage(t, 2)
	s.releases()
	s.k.seen.returns, s.k.stopBy = true, s.now
	s.now += time.Minute
	s.k.prepareRelease(s.now, s.see.draining)
	if s.k.sendReleases(s.now); len(s.got) != 1 || s.k.digest == [32]byte{} {
		t.Errorf("%d deliveries", len(s.got))
	}
}

// A leader that fails, or does not receive the releases, delays nothing: after release-timeout
// the acknowledgement has no releases. A later answer changes nothing.
func TestUnconfirmedReleasesAreDiscarded(t *testing.T) {
	for _, taken := range []bool{false, true} {
		s := newHookStage(t, 2)
		s.releases()
		s.k.prepareRelease(s.now, s.see.draining)
		if s.k.sendReleases(s.now); s.k.digest == [32]byte{} || len(s.got) != 1 {
			t.Fatalf("%d deliveries", len(s.got))
		}
		s.k.answerReceived(0, Answer{Taken: true, Epoch: s.see.draining - 1}, false) // of another proposal
		if taken {
			s.k.answerReceived(0, Answer{Taken: true, Epoch: s.see.draining}, false)
		}
		s.k.sendReleases(s.now + resendInterval)
		if again := len(s.got) - 1; (again == 1) == taken {
			t.Errorf("sent %d times more, though taken is %v", again, taken)
		}
		if changed := s.k.sendReleases(s.now + 4*time.Second); changed == taken || (s.k.digest == [32]byte{}) == taken {
			t.Errorf("after release-timeout the digest is gone: %v, though taken is %v", changed, taken)
		}
	}
}
