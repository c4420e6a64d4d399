package ack

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Format of a backup file:
//
//	magic 15 | version 1 | sha256 of the rest 32 | state
//
// The magic is readable text, so that `head -c 15` identifies the file.
const (
	backupMagic   = "shardway backup"
	backupVersion = 1
	backupHead    = len(backupMagic) + 1 + sha256.Size

	// MaxBackup bounds the size of a backup.
	MaxBackup = 8<<20 + MaxRegistry
)

// ErrNoBackup reports a file that is not a complete backup. The wrapping error contains the
// cause.
var ErrNoBackup = errors.New("not a backup")

// Backup returns the state as the content of a file for OpenBackup. The registry in it is empty.
func (s *State) Backup() ([]byte, error) { return s.BackupWithRegistry(nil) }

// BackupWithRegistry is Backup with an encoded registry.
func (s *State) BackupWithRegistry(registry []byte) ([]byte, error) {
	if !s.Bootstrapped() {
		return nil, errors.New("ack: backup: no cluster yet")
	}
	state, err := s.MarshalWithRegistry(registry)
	if err != nil {
		return nil, err
	}
	backup := make([]byte, 0, backupHead+len(state))
	backup = append(backup, backupMagic...)
	backup = append(backup, backupVersion)
	sum := sha256.Sum256(state)
	backup = append(backup, sum[:]...)
	return append(backup, state...), nil
}

// OpenBackup returns the state in a backup. For any other content, including a truncated or modified backup, the
// error is ErrNoBackup.
func OpenBackup(data []byte) (*State, error) {
	s, _, err := OpenBackupWithRegistry(data)
	return s, err
}

// OpenBackupWithRegistry is OpenBackup, and also returns the encoded registry.
func OpenBackupWithRegistry(data []byte) (s *State, registry []byte, err error) {
	if len(data) > MaxBackup {
		return nil, nil, fmt.Errorf("%w: it is larger than %d bytes", ErrNoBackup, MaxBackup)
	}
	if !bytes.HasPrefix(data, []byte(backupMagic)) || len(data) < backupHead {
		return nil, nil, fmt.Errorf("%w: it does not begin as one, or is cut", ErrNoBackup)
	}
	if v := data[len(backupMagic)]; v != backupVersion {
		return nil, nil, fmt.Errorf("%w that this program reads: it has version %d, this program supports version %d", ErrNoBackup, v, backupVersion)
	}
	sum := sha256.Sum256(data[backupHead:])
	if !bytes.Equal(sum[:], data[len(backupMagic)+1:backupHead]) {
		return nil, nil, fmt.Errorf("%w: wrong checksum, it is damaged", ErrNoBackup)
	}
	s, registry, err = DecodeWithRegistry(data[backupHead:])
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNoBackup, err)
	}
	if !s.Bootstrapped() {
		return nil, nil, fmt.Errorf("%w: it contains no cluster", ErrNoBackup)
	}
	return s, registry, nil
}
