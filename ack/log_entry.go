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
	kindLevel
	kindPolicy
	kindRestart
	kindApps
)

const (
	// MaxShards is the largest number of shards of a cluster.
	MaxShards = 65536
	maxText   = 64
	maxMap    = 1 << 20
	maxLevel  = 255
)

type bootstrapEntry struct {
	cluster string
	shards  int
	timing  Timing
}

// timingEntry replaces the timing.
type timingEntry struct {
	// term is the Raft term of the leader that decided on it (see proposal).
	term uint64
	// replaces is the index of the entry that set the present timing.
	replaces uint64
	timing   Timing
}

type dropRecord struct {
	node    shardmap.NodeID
	cause   Cause
	strikes uint32
}

type proposal struct {
	// term is the Raft term of the leader that computed it. A proposal that the same leader
	// submits in a later term must not count.
	term   uint64
	base   shardmap.Epoch
	reason string // at most maxText bytes
	want   *shardmap.Map
	drops  []dropRecord
	keys   string // the key configuration from the commit on; empty: unchanged
}

type commit struct {
	epoch  shardmap.Epoch
	digest [32]byte
	// released are the releases of moving shards, ordered by shard. servers are the servers
	// that get them, in order.
	released []Released
	servers  []string
}

// EncodeBootstrap returns the entry that gives a new cluster its id (1 to 64 bytes), its
// number of shards (1 to MaxShards) and its first timing. Only the first such entry counts. It
// is encoded at MinLevel, the first level in force.
func EncodeBootstrap(cluster string, shards int, t Timing) []byte {
	w := newWriter(MinLevel)
	w.byte(kindBootstrap)
	w.text(cluster)
	w.uint(uint64(shards))
	w.timing(t)
	return w.b
}

func encodeTiming(at Level, c timingEntry) []byte {
	w := newWriter(at)
	w.byte(kindTiming)
	w.uint(c.term)
	w.uint(c.replaces)
	w.timing(c.timing)
	return w.b
}

// encodeProposal encodes a proposal without ownership epochs, because State sets them. In a
// map of many shards with a long history they would take more space than the owners.
func encodeProposal(at Level, p proposal) ([]byte, error) {
	m, err := p.want.Settle(shardmap.New(p.want.Len()), p.want.Epoch()).MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("ack: encode proposal: %w", err)
	}
	w := newWriter(at)
	w.b = append(slices.Grow(w.b, len(m)+64), kindProposal)
	w.uint(p.term)
	w.uint(uint64(p.base))
	w.text(p.reason)
	w.bytes(m)
	w.uint(uint64(len(p.drops)))
	for _, d := range p.drops {
		w.text(string(d.node))
		w.byte(byte(d.cause))
		w.uint(uint64(d.strikes))
	}
	w.text(p.keys)
	return w.b, nil
}

func encodeCommit(at Level, c commit) []byte {
	w := newWriter(at)
	w.byte(kindCommit)
	w.uint(uint64(c.epoch))
	w.b = append(w.b, c.digest[:]...)
	w.servers(c.servers)
	w.releases(c.released)
	return w.b
}

// decodeCommand decodes an entry to one of the entry types, and returns the level of its
// encoding.
func decodeCommand(b []byte) (any, Level, error) {
	r := reader{b: b}
	at := r.level()
	var c any
	switch kind := r.byte(); kind {
	case kindBootstrap:
		c = bootstrapEntry{cluster: r.text(1, maxText), shards: int(r.uint(1, MaxShards)), timing: r.timing()}
	case kindProposal:
		p := proposal{term: r.uint(0, maxUint), base: shardmap.Epoch(r.uint(0, maxUint)), reason: r.text(0, maxText), want: r.shardMap()}
		for range r.uint(0, maxDrops) {
			d := dropRecord{node: shardmap.NodeID(r.text(1, maxText)), cause: r.cause(), strikes: uint32(r.uint(0, maxUint32))}
			if r.err != nil {
				break
			}
			p.drops = append(p.drops, d)
		}
		p.keys = r.text(0, MaxKeys)
		c = p
	case kindCommit:
		x := commit{epoch: shardmap.Epoch(r.uint(1, maxUint))}
		copy(x.digest[:], r.take(len(x.digest)))
		x.servers, x.released = r.servers(), r.releases()
		c = x
	case kindTiming:
		c = timingEntry{term: r.uint(0, maxUint), replaces: r.uint(0, maxUint), timing: r.timing()}
	case kindLevel:
		c = levelEntry{term: r.uint(0, maxUint), level: Level(r.uint(1, maxLevel))}
	case kindPolicy:
		c = r.policyEntry()
	case kindRestart:
		c = r.restartEntry()
	case kindApps:
		c = r.appReportEntry()
	default:
		r.fail(fmt.Sprintf("kind %d", kind))
	}
	if err := r.end(); err != nil {
		return nil, 0, err
	}
	return c, at, nil
}
