package ack

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"shardway/shardmap"
)

// noteStage is a cluster whose log a test writes. Node a owns all shards.
type noteStage struct{ *returnStage }

func newNoteStage(t *testing.T, shards int) noteStage {
	t.Helper()
	s := noteStage{newReturning(t, shards)}
	s.owned("a")
	return s
}

// restartWith appends the goodbye of node a under a boot, with the given releases.
func (s noteStage) restartWith(boot uint64, proposal shardmap.Epoch, released ...Released) {
	s.t.Helper()
	s.apply(EncodeRestart(MinFormatVersion, RestartEntry{Term: 1, Node: "a", Boot: boot, Grace: time.Minute, Released: released, Server: "a/1", Proposal: proposal}), OutcomeRestartChanged)
}

// passOn moves every shard from a to b, the ones in notes released with these notes, the
// others unreleased.
func (s noteStage) passOn(server string, notes map[shardmap.Shard]string) {
	s.t.Helper()
	base := s.s.Committed()
	entry, err := EncodeProposal(MinFormatVersion, ProposalEntry{Term: 1, Base: base.Epoch(), Want: shardmap.Assign(base, []shardmap.Member{{ID: "b", Weight: 1}}, shardmap.Policy{})})
	if err != nil {
		s.t.Fatal(err)
	}
	s.apply(entry, OutcomeProposed)
	c := CommitEntry{Epoch: s.s.Proposed().Epoch(), Digest: s.s.Proposed().Digest(), Servers: []string{server}}
	for sh := range shardmap.Shard(s.s.Shards()) {
		if n, ok := notes[sh]; ok {
			c.Released = append(c.Released, Released{Shard: sh, Note: []byte(n)})
		}
	}
	s.apply(EncodeCommit(MinFormatVersion, c), OutcomeCommitted)
}

// A recovered cluster does not know what the lost one has done since.
func TestNothingCountsAsReleasedAfterRecovery(t *testing.T) {
	s := newNoteStage(t, 2)
	s.passOn("b/1", map[shardmap.Shard]string{0: "", 1: "there"})
	if note, server, ok := s.s.ReleaseNote(1); !ok || server != "b/1" || string(note) != "there" {
		t.Fatalf("%q for %q, %v", note, server, ok)
	}
	r, err := s.s.Recovered("c2", s.s.MaxIndex()+MinIndexGap)
	if err != nil {
		t.Fatal(err)
	}
	for sh := range shardmap.Shard(2) {
		if _, _, ok := r.ReleaseNote(sh); ok {
			t.Errorf("shard %d counts as released", sh)
		}
	}
}

// Snapshots contain release notes, for owners only.
func TestSnapshotContainsReleaseNotes(t *testing.T) {
	s := newNoteStage(t, 8)
	s.passOn("b/1", map[shardmap.Shard]string{0: "", 3: "there"})
	b, err := s.s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeState(b)
	if err != nil {
		t.Fatal(err)
	}
	for sh := range shardmap.Shard(8) {
		note, server, ok := got.ReleaseNote(sh)
		wantNote, wantServer, want := s.s.ReleaseNote(sh)
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

// After a recovery no note is valid, because the state may have changed since.
func TestNothingIsKeptAfterRecovery(t *testing.T) {
	s := newNoteStage(t, 2)
	s.restartWith(7, s.s.Committed().Epoch(), Released{Shard: 0})
	r, err := s.s.Recovered("c2", s.s.MaxIndex()+MinIndexGap)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.releaseRecords.kept) > 0 {
		t.Error("the shard counts as released")
	}
}

// Snapshots contain kept notes, and notes for another disk of the same node. The first codec
// identified the disk by its node alone, and confused the shards of the two.
func TestSnapshotContainsKeptNotes(t *testing.T) {
	s := newNoteStage(t, 4)
	s.restartWith(7, s.s.Committed().Epoch(), Released{Shard: 1, Note: []byte("there")}, Released{Shard: 3, From: "b"})
	s.s.releaseRecords.moved = map[shardmap.Shard]releaseRecord{0: {server: "a/1"}, 2: {server: "a/2", note: []byte("else")}}
	b, err := s.s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeState(b)
	if err != nil || !reflect.DeepEqual(got.releaseRecords, s.s.releaseRecords) {
		t.Fatalf("%+v, want %+v: %v", got.releaseRecords, s.s.releaseRecords, err)
	}
}

// The entry that begins a restart names the disk and its releases. The entry that ends it
// names none.
func TestRestartEntryContainsReleases(t *testing.T) {
	whole := RestartEntry{Term: 3, Node: "a", Boot: 7, Grace: time.Second, Released: []Released{{Shard: 3, From: "b", Note: []byte("n")}}, Server: "a/1", Proposal: 9}
	b := EncodeRestart(MinFormatVersion, whole)
	if got, _, err := decodeCommand(b); err != nil || !reflect.DeepEqual(got, whole) {
		t.Errorf("%+v became %+v, %v", whole, got, err)
	}
	for what, bad := range map[string]func(*RestartEntry){
		"an end that keeps something": func(c *RestartEntry) { c.Grace = 0 },
		"the disk of another node":    func(c *RestartEntry) { c.Server = "b/1" },
		"no acknowledgement":          func(c *RestartEntry) { c.Proposal = 0 },
	} {
		c := whole
		bad(&c)
		if _, _, err := decodeCommand(EncodeRestart(MinFormatVersion, c)); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	if _, _, err := decodeCommand(bytes.TrimSuffix(b, []byte("n"))); err == nil {
		t.Error("half of one is taken")
	}
}

// The age of a kept note is that of the restart, however long the node has owned the shard.
func TestKeptNotesAreNotTheOldest(t *testing.T) {
	s := newNoteStage(t, 1200)
	many := map[shardmap.Shard]releaseRecord{}
	for sh := range shardmap.Shard(1200) {
		many[sh] = releaseRecord{server: "a/1", note: []byte("n")}
	}
	many[1199] = releaseRecord{server: "a/1", note: []byte("n"), boot: 7, index: s.s.Index() + 1}
	limitNotes(many, s.s.Committed())
	if _, ok := many[1199]; !ok || len(many) != MaxNotes {
		t.Errorf("%d notes are kept, the newest: %v", len(many), ok)
	}
}

// Requests for a node that restarts in place wait at the node that received them. They once
// waited at the stopping node, where no process would acquire the shard again, and failed when
// it ended.
func TestRestartInPlaceDelaysNoMap(t *testing.T) {
	s := newNoteStage(t, 1)
	r := NewRouting("a", s.s, 1, false).WithAcquired(make([]shardmap.Epoch, 1))
	if got := r.Route(0).Kind; got != QueuedAcquiring {
		t.Errorf("a shard that is not acquired is %v", got)
	}
	if got := r.WithRestarting().Route(0).Kind; got != QueuedRestarting {
		t.Errorf("and on its way out %v", got)
	}
}

// The notes of the state are bounded: the oldest ones are removed first.
func TestNotesOfTheStateAreBounded(t *testing.T) {
	s := newNoteStage(t, 1200)
	many := map[shardmap.Shard]releaseRecord{}
	for sh := range shardmap.Shard(1200) {
		many[sh] = releaseRecord{server: "a/1", note: []byte("n")}
	}
	if limitNotes(many, s.s.Committed()); len(many) != MaxNotes {
		t.Errorf("%d notes are kept, want %d", len(many), MaxNotes)
	}
}
