package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"shardway/node/disk"
)

// keyCurrentTerm is the key of the current term in the stable store of the library.
const keyCurrentTerm = "CurrentTerm"

// Offline is the content of stores on which no Raft is running.
type Offline struct {
	// Index and Entry are the index and the term of the last entry, committed or not.
	Index, Entry uint64
	// Term is the last term of the server.
	Term uint64
	// Servers is the last configuration in the log.
	Servers []Server
}

// Replay passes the newest snapshot and all later entries to fsm. It includes entries that were
// not committed on this server, like RecoverCluster of the library: the lost servers may have
// committed them. If an entry was not committed, its effects do no harm: a later map change reverts them.
func Replay(s *disk.Stores, fsm FSM) (Offline, error) {
	var o Offline
	err := withStores(s, func() error {
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
		if err := o.restoreSnapshot(s, fsm); err != nil {
			return err
		}
		return o.applyEntries(s, fsm)
	})
	if err != nil {
		return Offline{}, fmt.Errorf("consensus: read the log: %w", err)
	}
	return o, nil
}

// restoreSnapshot restores the newest snapshot, if there is one. A damaged snapshot is an error,
// because the log no longer has the entries that an older snapshot lacks.
func (o *Offline) restoreSnapshot(s *disk.Stores, fsm FSM) error {
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
	_, state, err := decodeSnapshot(b)
	if err != nil {
		return err
	}
	o.Index, o.Entry, o.Servers = meta.Index, meta.Term, servers(meta.Configuration)
	return fsm.Restore(state)
}

// applyEntries applies the entries after the snapshot.
func (o *Offline) applyEntries(s *disk.Stores, fsm FSM) error {
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

// Found initialises empty stores with a log whose only server is id: a snapshot of state at this
// index and term. The server is in this term and has not voted.
func Found(s *disk.Stores, id string, state []byte, index, term uint64) error {
	if _, _, err := split(id); err != nil {
		return err
	}
	one := raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id),
	}}}
	err := withStores(s, func() error {
		if has, err := raft.HasExistingState(s.Logs, s.Stable, s.Snapshots); err != nil {
			return err
		} else if has {
			return errors.New("the stores are not empty")
		}
		if err := s.Stable.SetUint64([]byte(keyCurrentTerm), term); err != nil {
			return err
		}
		_, addresses := raft.NewInmemTransport(raft.ServerAddress(id)) // only encodes addresses
		sink, err := s.Snapshots.Create(raft.SnapshotVersionMax, index, term, one, 1, addresses)
		if err != nil {
			return err
		}
		_, err = io.Copy(sink, io.MultiReader(bytes.NewReader(encodeHeader(index, state)), bytes.NewReader(state)))
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

// withStores runs f on stores that no Raft uses. A failing store does not return to f, but ends
// its goroutine.
func withStores(s *disk.Stores, f func() error) error {
	failed := make(chan error, 1) // called once
	s.Notify(func(err error) { failed <- err }, nil)
	done := make(chan error, 1)
	go func() {
		err := errors.New("the stores failed") // result if the store ends the goroutine
		defer func() { done <- err }()
		err = f()
	}()
	select {
	case err := <-done:
		return err
	case err := <-failed:
		s.Release()
		<-done //nolint:errcheck // err has the cause
		return err
	}
}
