package node

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/consensus"
	"shardway/node/disk"
)

// After an entry that this program cannot read, no snapshot is taken, and each later start meets the entry again. Once, Raft took a
// snapshot between that entry and the end of the node. The snapshot included the entry, so the next start continued without it and differed
// from the other nodes.
func TestNoSnapshotSkipsAnEntryThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := disk.NewMemory()
		for start := range 3 {
			met := make(chan error, 8) // each entry is applied once
			r, end := aloneOn(t, mem, newFSM(func(err error) { met <- err }))
			if start == 0 {
				if err := r.Bootstrap(); err != nil {
					t.Fatal(err)
				}
			}
			for !r.IsLeader() {
				time.Sleep(time.Millisecond)
			}
			if start == 0 {
				if err := r.Apply([]byte("of a later version")); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Barrier(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-met:
				if !errors.Is(err, ack.ErrCorrupt) {
					t.Errorf("start %d: %v, want ErrCorrupt", start, err)
				}
			default:
				t.Errorf("start %d: the entry was skipped", start)
			}
			if err := r.Snapshot(); err == nil {
				t.Errorf("start %d: a snapshot stands for the entry", start)
			}
			end()
		}
	})
}

// Raft applies entries until the node has stopped. A state that applied them after an unreadable entry would lack that entry, and would be
// acknowledged.
func TestStateIsFrozenByAnEntryThatCannotBeRead(t *testing.T) {
	f := newFSM(func(error) {})
	f.Apply(1, 1, ack.EncodeBootstrap("c1", 4, ack.DefaultTiming()))
	before := f.state.Load()
	f.Apply(2, 1, []byte("of a later version"))
	got := f.Apply(3, 1, ack.EncodeBootstrap("c1", 4, ack.DefaultTiming()))
	if err, ok := got.(error); !ok || !errors.Is(err, ack.ErrCorrupt) || f.state.Load() != before {
		t.Errorf("the entry after it gave %v, and the state is at %d, want ErrCorrupt and %d", got, f.state.Load().Index(), before.Index())
	}
}

// aloneOn starts the only server of a cluster on a disk. end stops it.
func aloneOn(t *testing.T, mem *disk.Memory, f *fsm) (r *consensus.Raft, end func()) {
	t.Helper()
	dir, err := mem.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	stores, err := dir.OpenStores(disk.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := consensus.ServerID(dir.Node(), dir.Disk())
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody is there") }
	if r, err = consensus.Open(consensus.Options{ID: id, Stream: consensus.NewStream(id, dial), FSM: f, Stores: stores, Log: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	return r, func() {
		if err := errors.Join(r.Shutdown(t.Context()), dir.Close()); err != nil {
			t.Error(err)
		}
	}
}
