package ack

import (
	"fmt"
	"slices"

	"shardway/shardmap"
)

// Kinds of entries. An entry starts with its format version and its kind. Numbers are unsigned
// varints, and texts and maps have a length prefix. An unknown format version is an error, because
// a node that skips an entry that other nodes apply would diverge from them.
const (
	kindBootstrap byte = iota + 1
	kindProposal
	kindCommit
	kindTiming
	kindFormatVersion
	kindPolicy
	kindRestart
	kindAppReports
	kindRegistry
	kindJoin
)

const (
	// MaxShards is the largest number of shards of a cluster.
	MaxShards       = 65536
	maxText         = 64
	maxMap          = 1 << 20
	maxFormatNumber = 255
)

// errInstances reports app instances in data of a format version without them.
var errInstances = fmt.Errorf("app instances need format version %d", InstancesFormatVersion)

// bootstrapEntry is the log entry that creates the cluster.
type bootstrapEntry struct {
	clusterID string
	shards    int // number of shards
	timing    Timing
	services  []ServiceSpec // nil means no list of services
}

// TimingEntry is the log entry that replaces the timing.
type TimingEntry struct {
	// Term is the Raft term of the leader that decided on it (see ProposalEntry).
	Term uint64
	// Replaces is the index of the entry that set the current timing.
	Replaces uint64
	Timing   Timing
}

// DropRecord is the exclusion of a node by a proposal, and the number of its exclusions so far
// for the same kind of cause.
type DropRecord struct {
	Node             shardmap.NodeID
	Cause            DropCause
	ConsecutiveDrops uint32 // see Drop.ConsecutiveDrops
}

// ProposalEntry is the log entry that proposes a map.
type ProposalEntry struct {
	// Term is the Raft term of the leader that computed it. A proposal that the same leader
	// submits in a later term must not count.
	Term   uint64
	Base   shardmap.Epoch // the committed map from which it was computed
	Reason string         // at most maxText bytes
	// Want contains the members and owners of the proposed map. State sets its epochs.
	Want      *shardmap.Map
	Drops     []DropRecord // the nodes that the proposal excludes
	KeyConfig string       // the key configuration from the commit on; empty means unchanged
}

// CommitEntry is the log entry that commits the last proposed map.
type CommitEntry struct {
	// Epoch and Digest identify the proposal. The state ignores a commit of any other one.
	Epoch  shardmap.Epoch
	Digest [32]byte
	// Released are the moving shards whose previous owners have released them, ordered by shard.
	Released []Released
	// Servers are the Raft server ids of the new owners of these shards, in order.
	Servers []string
}

// EncodeBootstrap returns the entry that gives a new cluster its id (1 to 64 bytes), its
// number of shards (1 to MaxShards) and its first timing. Only the first such entry counts. It
// is encoded at MaxFormatVersion, which becomes the first format version in force. If there are
// services, their ranges follow each other in the given order, and shards must be the sum of their shards.
func EncodeBootstrap(cluster string, shards int, t Timing, services ...ServiceSpec) []byte {
	w := newWriter(MaxFormatVersion)
	w.byte(kindBootstrap)
	w.text(cluster)
	w.uint(uint64(shards))
	w.writeTiming(t)
	w.writeServiceSpecs(services)
	return w.buf
}

// EncodeTiming encodes the entry in the given format version.
func EncodeTiming(version FormatVersion, entry TimingEntry) []byte {
	w := newWriter(version)
	w.byte(kindTiming)
	w.uint(entry.Term)
	w.uint(entry.Replaces)
	w.writeTiming(entry.Timing)
	return w.buf
}

// EncodeProposal encodes a proposal without ownership epochs, because State sets them. In a
// map of many shards with a long history they would take more space than the owners.
func EncodeProposal(version FormatVersion, proposal ProposalEntry) ([]byte, error) {
	encodedMap, err := proposal.Want.WithEpoch(shardmap.New(proposal.Want.Len()), proposal.Want.Epoch()).MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("ack: encode proposal: %w", err)
	}
	if proposal.Want.HasInstances() && !max(version, MinFormatVersion).HasInstances() {
		return nil, fmt.Errorf("ack: encode proposal: %w", errInstances)
	}
	w := newWriter(version)
	w.buf = append(slices.Grow(w.buf, len(encodedMap)+64), kindProposal)
	w.uint(proposal.Term)
	w.uint(uint64(proposal.Base))
	w.text(proposal.Reason)
	w.bytes(encodedMap)
	w.uint(uint64(len(proposal.Drops)))
	for _, record := range proposal.Drops {
		w.text(string(record.Node))
		w.byte(byte(record.Cause))
		w.uint(uint64(record.ConsecutiveDrops))
	}
	w.text(proposal.KeyConfig)
	return w.buf, nil
}

// EncodeCommit encodes the entry in the given format version.
func EncodeCommit(version FormatVersion, entry CommitEntry) []byte {
	w := newWriter(version)
	w.byte(kindCommit)
	w.uint(uint64(entry.Epoch))
	w.buf = append(w.buf, entry.Digest[:]...)
	w.writeNames(entry.Servers)
	w.writeReleases(entry.Released)
	return w.buf
}

// decodeCommand decodes an entry to one of the entry types, and returns the format version of its
// encoding.
func decodeCommand(data []byte) (any, FormatVersion, error) {
	r := reader{buf: data}
	version := r.readFormatVersion()
	var entry any
	switch kind := r.byte(); kind {
	case kindBootstrap:
		entry = r.readBootstrapEntry()
	case kindProposal:
		entry = r.readProposalEntry()
	case kindCommit:
		entry = r.readCommitEntry()
	case kindTiming:
		entry = TimingEntry{Term: r.uint(0, maxUint), Replaces: r.uint(0, maxUint), Timing: r.readTiming()}
	case kindFormatVersion:
		entry = FormatVersionEntry{Term: r.uint(0, maxUint), Version: FormatVersion(r.uint(1, maxFormatNumber))}
	case kindPolicy:
		entry = r.readPolicyEntry()
	case kindRestart:
		entry = r.readRestartEntry()
	case kindAppReports:
		entry = r.readAppReportEntry()
	case kindRegistry:
		entry = r.readRegistryEntry()
	case kindJoin:
		entry = r.readJoinEntry()
	default:
		r.fail(fmt.Sprintf("kind %d", kind))
	}
	if err := r.finish(); err != nil {
		return nil, 0, err
	}
	return entry, version, nil
}

// readBootstrapEntry decodes the output of EncodeBootstrap after its kind.
func (r *reader) readBootstrapEntry() bootstrapEntry {
	entry := bootstrapEntry{clusterID: r.text(1, maxText), shards: int(r.uint(1, MaxShards)), timing: r.readTiming()}
	entry.services = r.readServiceSpecs(entry.shards)
	return entry
}

// readProposalEntry decodes the output of EncodeProposal after its kind.
func (r *reader) readProposalEntry() ProposalEntry {
	proposal := ProposalEntry{Term: r.uint(0, maxUint), Base: r.readEpoch(), Reason: r.text(0, maxText), Want: r.readShardMap()}
	for range r.uint(0, maxDrops) {
		record := DropRecord{Node: shardmap.NodeID(r.text(1, maxText)), Cause: r.readCause(), ConsecutiveDrops: uint32(r.uint(0, maxUint32))}
		if r.err != nil {
			break
		}
		proposal.Drops = append(proposal.Drops, record)
	}
	proposal.KeyConfig = r.text(0, MaxKeyConfig)
	return proposal
}

// readCommitEntry decodes the output of EncodeCommit after its kind.
func (r *reader) readCommitEntry() CommitEntry {
	commit := CommitEntry{Epoch: shardmap.Epoch(r.uint(1, maxUint))}
	copy(commit.Digest[:], r.read(len(commit.Digest)))
	commit.Servers, commit.Released = r.readNames(), r.readReleases()
	return commit
}
