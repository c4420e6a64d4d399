package shardmap

import (
	"cmp"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// codecVersion is the first byte of every encoded map.
const codecVersion = 1

// ErrCodec reports bytes that are not an encoded map. Decode wraps it.
var ErrCodec = errors.New("shardmap: not an encoded map")

var _ encoding.BinaryMarshaler = (*Map)(nil)

// MarshalBinary encodes m. There is exactly one encoding of a map, so equal maps
// give equal bytes. The error is always nil.
//
//	version   1 byte
//	epoch     uvarint
//	shards    uvarint
//	members   uvarint, then for each, ascending by id: length of id, id, weight (uvarints)
//	epochs    uvarint, then the distinct ownership epochs of owned shards, newest
//	          first, each as its distance (uvarint) from the one before; the first from epoch
//	owners    per shard: 0 for an orphan, else 1 + index of the member
//	since     per owned shard: index of its ownership epoch
//
// Owners and since are packed with just as many bits as their largest possible
// value needs, lowest bits first, each padded with zeros to a whole byte: 256
// bytes for the owners of 1024 shards among three nodes, none for since as long
// as all were assigned together.
func (m *Map) MarshalBinary() ([]byte, error) {
	b := []byte{codecVersion}
	b = binary.AppendUvarint(b, uint64(m.epoch))
	b = binary.AppendUvarint(b, uint64(len(m.owners)))
	b = binary.AppendUvarint(b, uint64(len(m.members)))
	for _, mb := range m.members {
		b = binary.AppendUvarint(b, uint64(len(mb.ID)))
		b = append(b, mb.ID...)
		b = binary.AppendUvarint(b, uint64(mb.Weight))
	}
	epochs := m.epochTable()
	b = binary.AppendUvarint(b, uint64(len(epochs)))
	last := m.epoch
	for _, e := range epochs {
		b = binary.AppendUvarint(b, uint64(last-e))
		last = e
	}
	p := bitWriter{b: b}
	width := ownerWidth(len(m.members))
	for _, o := range m.owners {
		p.write(uint64(o+1), width)
	}
	p.flush()
	if width = indexWidth(len(epochs)); width > 0 {
		place := make(map[Epoch]uint64, len(epochs))
		for i, e := range epochs {
			place[e] = uint64(i)
		}
		for s, o := range m.owners {
			if o != noOwner {
				p.write(place[m.since[s]], width)
			}
		}
		p.flush()
	}
	return p.b, nil
}

// Digest returns the SHA-256 of the encoding: two maps with the same digest are
// the same, epochs included.
func (m *Map) Digest() [32]byte {
	b, _ := m.MarshalBinary() // never an error
	return sha256.Sum256(b)
}

// Decode reads what MarshalBinary wrote and refuses anything else: other
// versions, values out of bounds, a second way to say the same, bytes left over.
// Whatever b says, it allocates less than a megabyte, and it keeps no part of b.
func Decode(b []byte) (*Map, error) {
	d := decoder{b: b}
	if v := d.byte(); d.err == nil && v != codecVersion {
		return nil, fmt.Errorf("%w: version %d, this node reads %d", ErrCodec, v, codecVersion)
	}
	epoch := d.uvarint("epoch", math.MaxUint64)
	shards := int(d.uvarint("shards", MaxShards))
	if shards == 0 {
		d.failf("no shards")
	}
	m := &Map{epoch: Epoch(epoch), members: d.members()}
	epochs := d.epochs(m.epoch, shards)
	m.owners = d.owners(shards, len(m.members))
	m.since = d.since(m.owners, epochs)
	if len(d.b) > 0 {
		d.failf("%d bytes left over", len(d.b))
	}
	if d.err != nil {
		return nil, d.err
	}
	m.recount()
	return m, nil
}

// epochTable returns the distinct ownership epochs of owned shards, newest first.
func (m *Map) epochTable() []Epoch {
	var table []Epoch
	seen := make(map[Epoch]bool)
	for s, o := range m.owners {
		if o != noOwner && !seen[m.since[s]] {
			seen[m.since[s]] = true
			table = append(table, m.since[s])
		}
	}
	slices.SortFunc(table, func(a, b Epoch) int { return cmp.Compare(b, a) })
	return table
}

// ownerWidth is the number of bits of 0 (orphaned) to members.
func ownerWidth(members int) int { return bits.Len(uint(members)) }

// indexWidth is the number of bits of an index below n.
func indexWidth(n int) int { return bits.Len(uint(max(n, 1) - 1)) }
