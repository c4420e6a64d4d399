package ack

import (
	"errors"
	"testing"
)

// registryLog returns a bootstrapped state.
func registryLog(t *testing.T) *State {
	t.Helper()
	s, _, err := NewState().Apply(1, 1, EncodeBootstrap("c", 4, DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRegistryEntryChangesOnlyTheIndex(t *testing.T) {
	s := registryLog(t)
	entry := EncodeRegistry(MaxFormatVersion, []byte("command"))
	next, outcome, err := s.Apply(2, 1, entry)
	if err != nil || outcome != OutcomeRegistry || next.Index() != 2 || next.Committed() != s.Committed() || string(RegistryCommand(entry)) != "command" {
		t.Errorf("outcome %d, %v, command %q", outcome, err, RegistryCommand(entry))
	}
	if _, outcome, err := NewState().Apply(2, 1, entry); err != nil || outcome != OutcomeIgnored {
		t.Errorf("before the bootstrap: outcome %d, %v, want ignored", outcome, err)
	}
	for _, corrupt := range [][]byte{EncodeRegistry(RegistryFormatVersion-1, []byte("command")), EncodeRegistry(MaxFormatVersion, nil), EncodeRegistry(MaxFormatVersion, make([]byte, maxRegistryCommand+1))} {
		if _, _, err := s.Apply(2, 1, corrupt); !errors.Is(err, ErrCorrupt) {
			t.Errorf("an entry with %d bytes: %v, want ErrCorrupt", len(corrupt), err)
		}
	}
}

func TestSnapshotAndBackupContainTheRegistry(t *testing.T) {
	s := registryLog(t)
	snapshot, err := s.MarshalWithRegistry([]byte("registry"))
	if err != nil {
		t.Fatal(err)
	}
	if _, registry, decodeErr := DecodeWithRegistry(snapshot); decodeErr != nil || string(registry) != "registry" {
		t.Errorf("registry %q of the snapshot, %v", registry, decodeErr)
	}
	backup, err := s.BackupWithRegistry([]byte("registry"))
	if err != nil {
		t.Fatal(err)
	}
	if _, registry, openErr := OpenBackupWithRegistry(backup); openErr != nil || string(registry) != "registry" {
		t.Errorf("registry %q of the backup, %v", registry, openErr)
	}
	s.formatVersion = RegistryFormatVersion - 1
	if snapshot, err = s.MarshalWithRegistry([]byte("registry")); err != nil {
		t.Fatal(err)
	}
	if _, registry, err := DecodeWithRegistry(snapshot); err != nil || registry != nil {
		t.Errorf("registry %q before its format version, %v", registry, err)
	}
}
