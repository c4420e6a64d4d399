package agent

import (
	"reflect"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// restartWith makes node a send a goodbye under a boot, with the given releases.
func (s *hookStage) restartWith(boot uint64, proposal shardmap.Epoch, released ...ack.Released) {
	s.t.Helper()
	s.entry(ack.EncodeRestart(ack.MinFormatVersion, ack.RestartEntry{Term: 1, Node: "a", Boot: boot, Grace: time.Minute, Released: released, Server: "a/1", Proposal: proposal}))
}

// nextProcess starts a process of a with the given disk and boot, and returns the shards that it
// acquires.
func (s *hookStage) nextProcess(server string, boot uint64) map[shardmap.Shard]HookShard {
	s.t.Helper()
	s.app.take()
	s.k = newHookMachine(s.k.options, nodeProcess{node: "a", server: server, boot: boot})
	got := map[shardmap.Shard]HookShard{}
	for _, c := range s.pollAfter(0) {
		for _, hs := range c.Shards {
			got[hs.Shard] = hs
		}
	}
	return got
}

// nextProcessWithOldLog starts the next process of a with a log that ends before the restart entry,
// although a leader has reported the entry. It returns the state with the entry.
func (s *hookStage) nextProcessWithOldLog() (after *ack.State) {
	s.t.Helper()
	before := s.see.state
	s.restartWith(7, before.Committed().Epoch(), ack.Released{Shard: 0, Note: []byte("there")})
	after = s.see.state
	s.k, s.see.state = newHookMachine(s.k.options, nodeProcess{node: "a", server: "a/1", boot: 8}), before
	s.k.handleAnswer(s.now, ack.Answer{RestartIndex: after.RestartsIndex()}, false)
	return after
}

// The next process on the same disk gets the release notes of a process that restarts in
// place, as those of its own node. The process after that one gets none, because the state may
// have changed.
func TestNextProcessGetsNotesOfThePreviousOne(t *testing.T) {
	for _, test := range []struct {
		server string
		boot   uint64
		told   bool
	}{{"a/1", 8, true}, {"a/1", 9, false}, {"a/1", 7, false}, {"a/2", 8, false}} {
		s := newHookStage(t, 3)
		s.restartWith(7, s.see.state.Committed().Epoch(), ack.Released{Shard: 0, Note: []byte("there")}, ack.Released{Shard: 2, From: "b"})
		got := s.nextProcess(test.server, test.boot)
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

// A lease confirms which maps this node has applied, but the restart entry may follow them in
// the log. Until it is applied, the app must not get an acquire call without the notes.
func TestNextProcessWaitsForTheRestartEntry(t *testing.T) {
	s := newHookStage(t, 2)
	after := s.nextProcessWithOldLog()
	if calls := s.pollAfter(time.Minute); len(calls) > 0 {
		t.Fatalf("with a log that ends before the absence, %+v", calls)
	}
	s.see.state = after
	calls := s.pollAfter(0)
	if len(calls) != 1 || len(calls[0].Shards) != 2 || !calls[0].Shards[0].Released || calls[0].Shards[1].Released {
		t.Fatalf("%+v", calls)
	}

	// A shard that it gains later cannot have a kept note.
	s.k.handleAnswer(s.now, ack.Answer{RestartIndex: after.RestartsIndex() + 100}, false)
	s.result(HookResult{Seq: calls[0].Seq})
	acquired := 0
	for _, to := range []shardmap.NodeID{"b", "a"} {
		s.propose([]shardmap.Member{{ID: to, Weight: 1}})
		for range 3 {
			for _, c := range s.pollAfter(time.Millisecond) {
				if s.result(HookResult{Seq: c.Seq}); c.Kind == HookAcquire {
					acquired += len(c.Shards)
				}
			}
			if s.see.drainingEpoch != 0 {
				s.commit()
			}
		}
	}
	if acquired != 2 {
		t.Errorf("it has acquired %d shards that it gained, want 2", acquired)
	}
}

// A shard that the node got after the release is not released.
func TestKeptNotesCoverTheShardsOfThatTime(t *testing.T) {
	s := newHookStage(t, 2)
	s.restartWith(7, s.see.state.Committed().Epoch()-1, ack.Released{Shard: 0})
	if got := s.nextProcess("a/1", 8); got[0].Released {
		t.Errorf("%+v", got)
	}
}

// The second restart replaces all kept notes of the first, also those of shards that the
// second did not release. A note that came with a shard through a map is kept as well.
func TestEachRestartReplacesKeptNotes(t *testing.T) {
	s := newHookStage(t, 2)
	s.restartWith(7, s.see.state.Committed().Epoch(), ack.Released{Shard: 0}, ack.Released{Shard: 1})
	s.restartWith(8, s.see.state.Committed().Epoch(), ack.Released{Shard: 1})
	if got := s.nextProcess("a/1", 9); got[0].Released || !got[1].Released {
		t.Errorf("%+v", got)
	}
	if _, ok := s.see.state.KeptRelease(0); ok {
		t.Error("what the first restart has kept is in the state")
	}
}

// A process that got a note and gives the shard up before serving it passes the note on as
// that of its own node.
func TestKeptNotesArePassedOn(t *testing.T) {
	s := newHookStage(t, 1)
	s.restartWith(7, s.see.state.Committed().Epoch(), ack.Released{Shard: 0, Note: []byte("there")})
	s.nextProcess("a/1", 8)
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	s.k.inputs.state = s.see.state
	s.k.prepareReleases(s.now, s.see.drainingEpoch)
	if r := s.k.delivery.releases; r == nil || !reflect.DeepEqual(r.Shards, []ack.Released{{Shard: 0, Note: []byte("there")}}) {
		t.Errorf("it gives up %+v", r)
	}
	s.commit()
	_, _, released := s.see.state.ReleaseNote(0)
	if _, kept := s.see.state.KeptRelease(0); released || kept {
		t.Error("taken without its word, the shard counts as released")
	}
}
