package ack

import (
	"fmt"
	"slices"

	"shardway/shardmap"
)

// Kinds of entries. An entry starts with its Level and its kind. Numbers are unsigned varints,
// and texts and maps have a length prefix. An unknown level is an error, because a node that
// skips an entry that other nodes apply would diverge from them.
const (
	kindBootstrap byte = iota + 1
	kindProposal
	kindCommit
	kindTiming
	kindFormatVersion
	kindPolicy
	kindRestart
	kindAppReports
)

const (
	// MaxShards is the largest number of shards of a cluster.
	MaxShards       = 65536
	maxText         = 64
	maxMap          = 1 << 20
	maxFormatNumber = 255
)

type bootstrapEntry struct {
	clusterID string
	shards    int
	timing    Timing
}

// TimingEntry is the log entry that replaces the timing.
type TimingEntry struct {
	// Term is the Raft term of the leader that decided on it (see ProposalEntry).
	Term uint64
	// Replaces is the index of the entry that set the present timing.
	Replaces uint64
	Timing   Timing
}

// DropRecord is the exclusion of a node by a proposal, and the number of its exclusions so far
// for the same kind of cause.
type DropRecord struct {
	Node    shardmap.NodeID
	Cause   DropCause
	Strikes uint32
}

// ProposalEntry is the log entry that proposes a map.
type ProposalEntry struct {
	// Term is the Raft term of the leader that computed it. A proposal that the same leader
	// submits in a later term must not count.
	Term      uint64
	Base      shardmap.Epoch // the committed map from which it was computed
	Reason    string         // at most maxText bytes
	Want      *shardmap.Map
	Drops     []DropRecord
	KeyConfig string // the key configuration from the commit on; empty means unchanged
}

// CommitEntry is the log entry that commits the last proposed map.
type CommitEntry struct {
	Epoch  shardmap.Epoch
	Digest [32]byte
	// Released are the releases of moving shards, ordered by shard. Servers are the servers
	// that get them, in order.
	Released []Released
	Servers  []string
}

// EncodeBootstrap returns the entry that gives a new cluster its id (1 to 64 bytes), its
// number of shards (1 to MaxShards) and its first timing. Only the first such entry counts. It
// is encoded at MinFormatVersion, the first level in force.
func EncodeBootstrap(cluster string, shards int, t Timing) []byte {
	w := newWriter(MinFormatVersion)
	w.byte(kindBootstrap)
	w.text(cluster)
	w.uint(uint64(shards))
	w.timing(t)
	return w.buf
}

// EncodeTiming returns the entry at a level.
func EncodeTiming(at FormatVersion, c TimingEntry) []byte {
	w := newWriter(at)
	w.byte(kindTiming)
	w.uint(c.Term)
	w.uint(c.Replaces)
	w.timing(c.Timing)
	return w.buf
}

// EncodeProposal encodes a proposal without ownership epochs, because State sets them. In a
// map of many shards with a long history they would take more space than the owners.
func EncodeProposal(at FormatVersion, p ProposalEntry) ([]byte, error) {
	m, err := p.Want.Settle(shardmap.New(p.Want.Len()), p.Want.Epoch()).MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("ack: encode proposal: %w", err)
	}
	w := newWriter(at)
	w.buf = append(slices.Grow(w.buf, len(m)+64), kindProposal)
	w.uint(p.Term)
	w.uint(uint64(p.Base))
	w.text(p.Reason)
	w.bytes(m)
	w.uint(uint64(len(p.Drops)))
	for _, d := range p.Drops {
		w.text(string(d.Node))
		w.byte(byte(d.Cause))
		w.uint(uint64(d.Strikes))
	}
	w.text(p.KeyConfig)
	return w.buf, nil
}

// EncodeCommit returns the entry at a level.
func EncodeCommit(at FormatVersion, c CommitEntry) []byte {
	w := newWriter(at)
	w.byte(kindCommit)
	w.uint(uint64(c.Epoch))
	w.buf = append(w.buf, c.Digest[:]...)
	w.servers(c.Servers)
	w.releases(c.Released)
	return w.buf
}

// decodeCommand decodes an entry to one of the entry types, and returns the level of its
// encoding.
func decodeCommand(b []byte) (any, FormatVersion, error) {
	r := reader{buf: b}
	at := r.formatVersion()
	var c any
	switch kind := r.byte(); kind {
	case kindBootstrap:
		c = bootstrapEntry{clusterID: r.text(1, maxText), shards: int(r.uint(1, MaxShards)), timing: r.timing()}
	case kindProposal:
		p := ProposalEntry{Term: r.uint(0, maxUint), Base: shardmap.Epoch(r.uint(0, maxUint)), Reason: r.text(0, maxText), Want: r.shardMap()}
		for range r.uint(0, maxDrops) {
			d := DropRecord{Node: shardmap.NodeID(r.text(1, maxText)), Cause: r.cause(), Strikes: uint32(r.uint(0, maxUint32))}
			if r.err != nil {
				break
			}
			p.Drops = append(p.Drops, d)
		}
		p.KeyConfig = r.text(0, MaxKeyConfig)
		c = p
	case kindCommit:
		x := CommitEntry{Epoch: shardmap.Epoch(r.uint(1, maxUint))}
		copy(x.Digest[:], r.read(len(x.Digest)))
		x.Servers, x.Released = r.servers(), r.releases()
		c = x
	case kindTiming:
		c = TimingEntry{Term: r.uint(0, maxUint), Replaces: r.uint(0, maxUint), Timing: r.timing()}
	case kindFormatVersion:
		c = FormatVersionEntry{Term: r.uint(0, maxUint), Version: FormatVersion(r.uint(1, maxFormatNumber))}
	case kindPolicy:
		c = r.policyEntry()
	case kindRestart:
		c = r.restartEntry()
	case kindAppReports:
		c = r.appReportEntry()
	default:
		r.fail(fmt.Sprintf("kind %d", kind))
	}
	if err := r.finish(); err != nil {
		return nil, 0, err
	}
	return c, at, nil
}
