package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"shardway/node/disk"
)

// keyCurrentTerm is where the library keeps its term.
const keyCurrentTerm = "CurrentTerm"

// Offline is what stores hold that no Raft runs on.
type Offline struct {
	// Index and Entry are the index and term of the last entry, be it committed
	// or not.
	Index, Entry uint64
	// Term is the latest term that the server took part in.
	Term uint64
	// Servers are the last configuration in the log.
	Servers []Server
}

// Replay gives all that the stores hold to fsm: the newest snapshot and every
// entry after it. Entries that were not committed here are given as well, as
// RecoverCluster of the library does: the servers that are lost may have committed
// them, and what a new round takes back costs nothing.
func Replay(s *disk.Stores, fsm FSM) (Offline, error) {
	var o Offline
	err := offline(s, func() error {
		has, err := raft.HasExistingState(s.Logs, s.Stable, s.Snapshots)
		if err != nil {
			return err
		}
		if !has {
			return errors.New("the raft log is empty")
		}
		if o.Term, err = s.Stable.GetUint64([]byte(keyCurrentTerm)); err != nil && err.Error() != "not found" {
			return err
		}
		if err := o.snapshot(s, fsm); err != nil {
			return err
		}
		return o.entries(s, fsm)
	})
	if err != nil {
		return Offline{}, fmt.Errorf("consensus: read the log: %w", err)
	}
	return o, nil
}

// snapshot restores the newest snapshot, if there is one. A damaged one is an
// error: what an older one lacks is not in the log any more.
func (o *Offline) snapshot(s *disk.Stores, fsm FSM) error {
	list, err := s.Snapshots.List()
	if err != nil || len(list) == 0 {
		return err
	}
	meta, r, err := s.Snapshots.Open(list[0].ID)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxSnapshot+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	_, state, err := open(b)
	if err != nil {
		return err
	}
	o.Index, o.Entry, o.Servers = meta.Index, meta.Term, servers(meta.Configuration)
	return fsm.Restore(state)
}

// entries applies what follows the snapshot.
func (o *Offline) entries(s *disk.Stores, fsm FSM) error {
	last, err := s.Logs.LastIndex()
	if err != nil {
		return err
	}
	for i := o.Index + 1; i <= last; i++ {
		var l raft.Log
		if err := s.Logs.GetLog(i, &l); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		switch l.Type {
		case raft.LogCommand:
			if err, failed := fsm.Apply(l.Index, l.Term, l.Data).(error); failed {
				return err
			}
		case raft.LogConfiguration:
			o.Servers = servers(raft.DecodeConfiguration(l.Data))
		case raft.LogNoop, raft.LogBarrier, raft.LogAddPeerDeprecated, raft.LogRemovePeerDeprecated:
		}
		o.Index, o.Entry = l.Index, l.Term
	}
	return nil
}

// Found writes into empty stores the beginning of a log whose only server is id:
// a snapshot of state that stands at the given index and term. The server has
// voted for nobody and is in that term.
func Found(s *disk.Stores, id string, state []byte, index, term uint64) error {
	if _, _, err := split(id); err != nil {
		return err
	}
	one := raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id),
	}}}
	err := offline(s, func() error {
		if has, err := raft.HasExistingState(s.Logs, s.Stable, s.Snapshots); err != nil {
			return err
		} else if has {
			return errors.New("the stores are not empty")
		}
		if err := s.Stable.SetUint64([]byte(keyCurrentTerm), term); err != nil {
			return err
		}
		_, spell := raft.NewInmemTransport(raft.ServerAddress(id)) // spells addresses, carries nothing
		sink, err := s.Snapshots.Create(raft.SnapshotVersionMax, index, term, one, 1, spell)
		if err != nil {
			return err
		}
		_, err = io.Copy(sink, io.MultiReader(bytes.NewReader(head(index, state)), bytes.NewReader(state)))
		if err != nil {
			return errors.Join(err, sink.Cancel())
		}
		return sink.Close()
	})
	if err != nil {
		return fmt.Errorf("consensus: found a log: %w", err)
	}
	return nil
}

// offline runs f on stores that no Raft uses. A store that fails does not return
// to f: its goroutine is ended.
func offline(s *disk.Stores, f func() error) error {
	failed := make(chan error, 1) // it is told once
	s.Notify(func(err error) { failed <- err }, nil)
	done := make(chan error, 1)
	go func() {
		err := errors.New("the stores failed") // if the goroutine is ended
		defer func() { done <- err }()
		err = f()
	}()
	select {
	case err := <-done:
		return err
	case err := <-failed:
		s.Release()
		<-done //nolint:errcheck // it knows no more
		return err
	}
}
