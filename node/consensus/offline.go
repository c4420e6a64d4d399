package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"shardway/node/disk"
)

// keyCurrentTerm is the key of the current term in the stable store of the Raft library.
const keyCurrentTerm = "CurrentTerm"

// OfflineState is the content of stores on which no Raft is running.
type OfflineState struct {
	// LastIndex and LastEntryTerm are the index and the term of the last entry, committed or not.
	LastIndex, LastEntryTerm uint64
	// CurrentTerm is the last term of the server.
	CurrentTerm uint64
	// Servers is the last configuration in the log.
	Servers []Server
}

// Replay passes the newest snapshot and all later entries to fsm. It includes entries that were
// not committed on this server, like RecoverCluster of the Raft library: the lost servers may have
// committed them. If an entry was not committed, its effects do no harm: a later map change reverts them.
func Replay(stores *disk.Stores, fsm FSM) (OfflineState, error) {
	var offline OfflineState
	err := withStores(stores, func() error {
		hasState, err := raft.HasExistingState(stores.Logs, stores.Stable, stores.Snapshots)
		if err != nil {
			return err
		}
		if !hasState {
			return errors.New("the raft log is empty")
		}
		if offline.CurrentTerm, err = stores.Stable.GetUint64([]byte(keyCurrentTerm)); err != nil && err.Error() != "not found" {
			return err
		}
		if err := offline.restoreSnapshot(stores, fsm); err != nil {
			return err
		}
		return offline.applyEntries(stores, fsm)
	})
	if err != nil {
		return OfflineState{}, fmt.Errorf("consensus: read the log: %w", err)
	}
	return offline, nil
}

// restoreSnapshot restores the newest snapshot, if there is one. A damaged snapshot is an error,
// because the log no longer has the entries that an older snapshot lacks.
func (o *OfflineState) restoreSnapshot(stores *disk.Stores, fsm FSM) error {
	snapshots, err := stores.Snapshots.List()
	if err != nil || len(snapshots) == 0 {
		return err
	}
	meta, reader, err := stores.Snapshots.Open(snapshots[0].ID)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(reader, maxSnapshotBytes+1))
	if err = errors.Join(err, reader.Close()); err != nil {
		return err
	}
	_, state, err := decodeSnapshot(data)
	if err != nil {
		return err
	}
	o.LastIndex, o.LastEntryTerm, o.Servers = meta.Index, meta.Term, fromLibrary(meta.Configuration)
	return fsm.Restore(state)
}

// applyEntries applies the entries after the snapshot.
func (o *OfflineState) applyEntries(stores *disk.Stores, fsm FSM) error {
	lastIndex, err := stores.Logs.LastIndex()
	if err != nil {
		return err
	}
	for i := o.LastIndex + 1; i <= lastIndex; i++ {
		var entry raft.Log
		if err := stores.Logs.GetLog(i, &entry); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		switch entry.Type {
		case raft.LogCommand:
			if err, failed := fsm.Apply(entry.Index, entry.Term, entry.Data).(error); failed {
				return err
			}
		case raft.LogConfiguration:
			o.Servers = fromLibrary(raft.DecodeConfiguration(entry.Data))
		case raft.LogNoop, raft.LogBarrier, raft.LogAddPeerDeprecated, raft.LogRemovePeerDeprecated:
		}
		o.LastIndex, o.LastEntryTerm = entry.Index, entry.Term
	}
	return nil
}

// InitStores initialises empty stores with a log whose only server is id: a snapshot of state at this
// index and term. The server is in this term and has not voted.
func InitStores(stores *disk.Stores, id string, state []byte, index, term uint64) error {
	if _, _, err := parseServerID(id); err != nil {
		return err
	}
	configuration := raft.Configuration{Servers: []raft.Server{{
		Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id),
	}}}
	err := withStores(stores, func() error {
		if hasState, err := raft.HasExistingState(stores.Logs, stores.Stable, stores.Snapshots); err != nil {
			return err
		} else if hasState {
			return errors.New("the stores are not empty")
		}
		if err := stores.Stable.SetUint64([]byte(keyCurrentTerm), term); err != nil {
			return err
		}
		_, addresses := raft.NewInmemTransport(raft.ServerAddress(id)) // only encodes addresses
		sink, err := stores.Snapshots.Create(raft.SnapshotVersionMax, index, term, configuration, 1, addresses)
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
		return fmt.Errorf("consensus: create a log: %w", err)
	}
	return nil
}

// withStores runs f on stores that no Raft uses. A failing store does not return to f, but ends
// its goroutine.
func withStores(stores *disk.Stores, f func() error) error {
	failed := make(chan error, 1) // called once
	stores.SetCallbacks(func(err error) { failed <- err }, nil)
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
		stores.Release()
		<-done //nolint:errcheck // err has the cause
		return err
	}
}
