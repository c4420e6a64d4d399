package peer

import "context"

// Record is what a node reports about the state of its data directory ("disk"), in addition to its
// boot number. This package only transfers it. The zero value means that the node reports nothing.
type Record struct {
	// Nonce distinguishes processes with the same boot.
	Nonce uint64
	// Term is the Raft term of the node, Last the last index in its log, and Applied the committed
	// epoch that it has applied.
	Term, Last, Applied uint64
}

// DiskRecords exchanges records about the disks of this node and of other nodes, to detect copied or
// restored disks. All methods are safe for concurrent use.
type DiskRecords interface {
	// LocalRecord returns the current record of this node.
	LocalRecord() Record
	// RecordOf returns what this node has recorded about the disk of a node. Zero values mean that
	// it has recorded nothing.
	RecordOf(node, disk string) (boot uint64, r Record)
	// CheckHandshake checks the other process, and what that process has recorded about the disk of
	// this node, before the stream is used. A code of zero means that the stream is accepted.
	// Otherwise the stream is refused with the code and the reason.
	CheckHandshake(ctx context.Context, handshake Handshake) (code Refusal, reason string)
}

// Handshake describes a handshake that has passed all other checks.
type Handshake struct {
	Kind Kind
	// Peer is the identity of the other side. Dialed means that this node has dialed it, at the
	// address that Lookup returned.
	Peer   Identity
	Dialed bool
	// BootKnownToPeer and RecordKnownToPeer are the boot number and the record that the other side has
	// stored for the disk of this node. They are set only if the other side has dialed.
	BootKnownToPeer   uint64
	RecordKnownToPeer Record
}

// noDiskRecords is the DiskRecords of a node that reports nothing and accepts every process.
type noDiskRecords struct{}

func (noDiskRecords) LocalRecord() Record { return Record{} }

func (noDiskRecords) RecordOf(string, string) (uint64, Record) { return 0, Record{} }

func (noDiskRecords) CheckHandshake(context.Context, Handshake) (Refusal, string) { return 0, "" }
