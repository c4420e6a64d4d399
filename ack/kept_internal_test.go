package ack

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"shardway/shardmap"
)

// keeps has node a say goodbye under a boot and keep what it is said to have released.
func (s *hookStage) keeps(boot uint64, proposal shardmap.Epoch, released ...Released) {
	s.t.Helper()
	s.entry(encodeRestart(MinLevel, restartEntry{term: 1, node: "a", boot: boot, grace: time.Minute, released: released, server: "a/1", proposal: proposal}))
}

// next starts the process of a with the given disk and boot, and returns what it acquires.
func (s *hookStage) next(server string, boot uint64) map[shardmap.Shard]HookShard {
	s.t.Helper()
	s.app.take()
	s.k = newHooks(s.k.o, "a", server, boot)
	got := map[shardmap.Shard]HookShard{}
	for _, c := range s.look(0) {
		for _, hs := range c.Shards {
			got[hs.Shard] = hs
		}
	}
	return got
}

// behind has the process of a that comes after a restart in place begin with a log that ends
// before that, though a leader has told of it, and returns what the log is to say.
func (s *hookStage) behind() (after *State) {
	s.t.Helper()
	before := s.see.state
	s.keeps(7, before.Committed().Epoch(), Released{Shard: 0, Note: []byte("there")})
	after = s.see.state
	s.k, s.see.state = newHooks(s.k.o, "a", "a/1", 8), before
	s.k.answerReceived(s.now, Answer{RestartIndex: after.restartsIndex}, false)
	return after
}

// What a process has released to restart in place is told to the next one on its disk, as
// the node's own; the one after that does not know whether the next has changed it.
func TestNextProcessGetsNotesOfThePreviousOne(t *testing.T) {
	for _, test := range []struct {
		server string
		boot   uint64
		told   bool
	}{{"a/1", 8, true}, {"a/1", 9, false}, {"a/1", 7, false}, {"a/2", 8, false}} {
		s := newHookStage(t, 3)
		s.keeps(7, s.see.state.Committed().Epoch(), Released{Shard: 0, Note: []byte("there")}, Released{Shard: 2, From: "b"})
		got := s.next(test.server, test.boot)
		want := map[shardmap.Shard]HookShard{0: {Shard: 0}, 1: {Shard: 1}, 2: {Shard: 2}}
		if test.told {
			want[0], want[2] = HookShard{Shard: 0, From: "a", Released: true, Note: []byte("there")}, HookShard{Shard: 2, Released: true}
		}
		for sh, w := range want {
			w.Epoch, w.Again = got[sh].Epoch, true
			if !reflect.DeepEqual(got[sh], w) {
				t.Errorf("boot %d of %s acquires %+v, want %+v", test.boot, test.server, got[sh], w)
			}
		}
	}
}

// A lease says which maps are known here, and a log that is being read may tell of the
// absence only after them: the app is not to hear meanwhile that nobody released anything.
func TestNextProcessWaitsForTheRestartEntry(t *testing.T) {
	s := newHookStage(t, 2)
	after := s.behind()
	if calls := s.look(time.Minute); len(calls) > 0 {
		t.Fatalf("with a log that ends before the absence, %+v", calls)
	}
	s.see.state = after
	calls := s.look(0)
	if len(calls) != 1 || len(calls[0].Shards) != 2 || !calls[0].Shards[0].Released || calls[0].Shards[1].Released {
		t.Fatalf("%+v", calls)
	}

	// What it gains later nobody can have kept for it.
	s.k.answerReceived(s.now, Answer{RestartIndex: after.restartsIndex + 100}, false)
	s.result(HookResult{Seq: calls[0].Seq})
	acquired := 0
	for _, to := range []shardmap.NodeID{"b", "a"} {
		s.propose([]shardmap.Member{{ID: to, Weight: 1}})
		for range 3 {
			for _, c := range s.look(time.Millisecond) {
				if s.result(HookResult{Seq: c.Seq}); c.Kind == HookAcquire {
					acquired += len(c.Shards)
				}
			}
			if s.see.draining != 0 {
				s.commit()
			}
		}
	}
	if acquired != 2 {
		t.Errorf("it has acquired %d shards that it gained, want 2", acquired)
	}
}

// A shard that the node has got since then is not one that it has released.
func TestKeptNotesCoverTheShardsOfThatTime(t *testing.T) {
	s := newHookStage(t, 2)
	s.keeps(7, s.see.state.Committed().Epoch()-1, Released{Shard: 0})
	if got := s.next("a/1", 8); got[0].Released {
		t.Errorf("%+v", got)
	}
}

// With the second restart what the first has kept is over, also what the second did not
// release; what did not come with the absence, but with the map, too.
func TestEachRestartReplacesKeptNotes(t *testing.T) {
	s := newHookStage(t, 2)
	s.keeps(7, s.see.state.Committed().Epoch(), Released{Shard: 0}, Released{Shard: 1})
	s.keeps(8, s.see.state.Committed().Epoch(), Released{Shard: 1})
	if got := s.next("a/1", 9); got[0].Released || !got[1].Released {
		t.Errorf("%+v", got)
	}
	if _, ok := s.see.state.keptNotes[0]; ok {
		t.Error("what the first restart has kept is in the state")
	}
}

// A process that is told of the release and gives the shard up before it has served it
// passes it on as its node's own.
func TestKeptNotesArePassedOn(t *testing.T) {
	s := newHookStage(t, 1)
	s.keeps(7, s.see.state.Committed().Epoch(), Released{Shard: 0, Note: []byte("there")})
	s.next("a/1", 8)
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	s.k.seen.state = s.see.state
	s.k.prepareRelease(s.now, s.see.draining)
	if r := s.k.releases; r == nil || !reflect.DeepEqual(r.Shards, []Released{{Shard: 0, Note: []byte("there")}}) {
		t.Errorf("it gives up %+v", r)
	}
	s.commit()
	if len(s.see.state.releaseNotes)+len(s.see.state.keptNotes) > 0 {
		t.Error("taken without its word, the shard counts as released")
	}
}

// What this log has not seen may have changed it.
func TestNothingIsKeptAfterRecovery(t *testing.T) {
	s := newHookStage(t, 2)
	s.keeps(7, s.see.state.Committed().Epoch(), Released{Shard: 0})
	r, err := s.see.state.Recovered("c2", s.see.state.MaxIndex()+MinJump)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.keptNotes) > 0 {
		t.Error("the shard counts as released")
	}
}

// Snapshots hold it, beside what came to another disk of the same name. The first codec of
// these found the disk by the node alone, and read one disk's shards as the other's.
func TestSnapshotContainsKeptNotes(t *testing.T) {
	s := newHookStage(t, 4)
	s.keeps(7, s.see.state.Committed().Epoch(), Released{Shard: 1, Note: []byte("there")}, Released{Shard: 3, From: "b"})
	s.see.state.releaseNotes = map[shardmap.Shard]releaseNote{0: {server: "a/1"}, 2: {server: "a/2", note: []byte("else")}}
	b, err := s.see.state.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeState(b)
	if err != nil || !reflect.DeepEqual(got.releaseNotes, s.see.state.releaseNotes) || !reflect.DeepEqual(got.keptNotes, s.see.state.keptNotes) {
		t.Fatalf("%+v and %+v, want %+v and %+v: %v", got.releaseNotes, got.keptNotes, s.see.state.releaseNotes, s.see.state.keptNotes, err)
	}
}

// An entry names the disk, and what it has released; one that ends an absence names none.
func TestRestartEntryContainsReleases(t *testing.T) {
	whole := restartEntry{term: 3, node: "a", boot: 7, grace: time.Second, released: []Released{{Shard: 3, From: "b", Note: []byte("n")}}, server: "a/1", proposal: 9}
	b := encodeRestart(MinLevel, whole)
	if got, _, err := decodeCommand(b); err != nil || !reflect.DeepEqual(got, whole) {
		t.Errorf("%+v became %+v, %v", whole, got, err)
	}
	for what, bad := range map[string]func(*restartEntry){
		"an end that keeps something": func(c *restartEntry) { c.grace = 0 },
		"the disk of another node":    func(c *restartEntry) { c.server = "b/1" },
		"no acknowledgement":          func(c *restartEntry) { c.proposal = 0 },
	} {
		c := whole
		bad(&c)
		if _, _, err := decodeCommand(encodeRestart(MinLevel, c)); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	if _, _, err := decodeCommand(bytes.TrimSuffix(b, []byte("n"))); err == nil {
		t.Error("half of one is taken")
	}
}

// What a restart keeps is fresh, however long its node has had the shards.
func TestKeptNotesAreNotTheOldest(t *testing.T) {
	s := newHookStage(t, 1200)
	many := map[shardmap.Shard]releaseNote{}
	for sh := range shardmap.Shard(1200) {
		many[sh] = releaseNote{server: "a/1", note: []byte("n")}
	}
	many[1199] = releaseNote{server: "a/1", note: []byte("n"), boot: 7, index: s.see.state.Index() + 1}
	boundNotes(many, s.see.state.Committed())
	if _, ok := many[1199]; !ok || len(many) != MaxNotes {
		t.Errorf("%d notes are kept, the newest: %v", len(many), ok)
	}
}

// What is forwarded to a node that restarts in place waits where it comes from. It waited
// there for a shard that nobody acquired any more, and broke with the process.
func TestRestartInPlaceDelaysNoMap(t *testing.T) {
	s := newHookStage(t, 1)
	r := NewRouting("a", s.see.state, 1, false).Acquired(make([]shardmap.Epoch, 1))
	if got := r.Route(0).Kind; got != HeldAcquiring {
		t.Errorf("a shard that is not acquired is %v", got)
	}
	if got := r.Restarting().Route(0).Kind; got != HeldRestarting {
		t.Errorf("and on its way out %v", got)
	}
}
