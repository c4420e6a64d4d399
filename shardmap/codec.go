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

// The first byte of an encoded map is its version.
const (
	codecVersion = 1
	// instancesVersion is the version of a map in which a node has an instance other than its first
	// one. Other maps have codecVersion, so that they do not depend on this feature.
	instancesVersion = 2
)

// ErrCodec reports input that is not an encoded map. Decode wraps it.
var ErrCodec = errors.New("shardmap: not an encoded map")

var _ encoding.BinaryMarshaler = (*Map)(nil)

// MarshalBinary encodes m. Each map has exactly one encoding, so equal maps have equal encodings.
// The error is always nil.
//
//	version   1 byte
//	epoch     uvarint
//	shards    uvarint
//	members   uvarint, then for each, ascending by id: length of id, id, weight (uvarints)
//	epochs    uvarint, then the distinct ownership epochs of owned shards, newest
//	          first, each as the difference (uvarint) to the one before; the first to epoch
//	owners    per shard: 0 for an orphan, otherwise 1 + index of the member
//	since     per owned shard: index of its ownership epoch
//
// A map of version 2 has two more fields: after the weight of each member its set of instances
// (uvarint), and at the end
//
//	instances largest instance (uvarint), then per owned shard: its instance
//
// The fields owners, since and instances use as many bits per value as their largest possible value needs,
// lowest bits first, and are padded with zero bits to a whole byte. The owners of 1024 shards and
// three members take 256 bytes. The since field is empty as long as all shards have the same
// ownership epoch.
func (m *Map) MarshalBinary() ([]byte, error) {
	version := m.codecVersion()
	b := []byte{version}
	b = binary.AppendUvarint(b, uint64(m.epoch))
	b = binary.AppendUvarint(b, uint64(len(m.owners)))
	b = appendMembers(b, m.members, version)
	epochs := m.epochTable()
	b = appendEpochs(b, m.epoch, epochs)
	w := bitWriter{out: b}
	width := ownerWidth(len(m.members))
	for _, owner := range m.owners {
		w.write(uint64(owner+1), width)
	}
	w.flush()
	m.writeSince(&w, epochs)
	if version == instancesVersion {
		m.writeInstances(&w)
	}
	return w.out, nil
}

// codecVersion returns the version with which the map is encoded.
func (m *Map) codecVersion() byte {
	if m.HasInstances() {
		return instancesVersion
	}
	return codecVersion
}

// HasInstances reports whether a node has another app instance than its first one, so that the map
// has the newer encoding.
func (m *Map) HasInstances() bool {
	return m.instances != nil || slices.ContainsFunc(m.members, func(member Member) bool { return member.Instances != 0 })
}

// appendMembers appends the table of members.
func appendMembers(b []byte, members []Member, version byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(members)))
	for _, member := range members {
		b = binary.AppendUvarint(b, uint64(len(member.ID)))
		b = append(b, member.ID...)
		b = binary.AppendUvarint(b, uint64(member.Weight))
		if version == instancesVersion {
			b = binary.AppendUvarint(b, uint64(member.Instances))
		}
	}
	return b
}

// writeInstances writes the instance of each owned shard.
func (m *Map) writeInstances(w *bitWriter) {
	largest := Instance(0)
	if len(m.instances) > 0 {
		largest = slices.Max(m.instances)
	}
	w.out = binary.AppendUvarint(w.out, uint64(largest))
	width := indexWidth(int(largest) + 1)
	for shard, owner := range m.owners {
		if owner != noOwner && width > 0 {
			w.write(uint64(m.instanceOf(shard)), width)
		}
	}
	w.flush()
}

// appendEpochs appends the table of ownership epochs, which are sorted from newest to oldest. newest
// is the epoch of the map.
func appendEpochs(b []byte, newest Epoch, epochs []Epoch) []byte {
	b = binary.AppendUvarint(b, uint64(len(epochs)))
	previous := newest
	for _, epoch := range epochs {
		b = binary.AppendUvarint(b, uint64(previous-epoch))
		previous = epoch
	}
	return b
}

// writeSince writes the ownership epoch of each owned shard, as an index in epochs. It writes nothing
// if all are equal.
func (m *Map) writeSince(w *bitWriter, epochs []Epoch) {
	width := indexWidth(len(epochs))
	if width == 0 {
		return
	}
	epochIndex := make(map[Epoch]uint64, len(epochs))
	for i, epoch := range epochs {
		epochIndex[epoch] = uint64(i)
	}
	for shard, owner := range m.owners {
		if owner != noOwner {
			w.write(epochIndex[m.since[shard]], width)
		}
	}
	w.flush()
}

// Digest returns the SHA-256 hash of the encoding. Maps with equal digests are equal, including
// epochs.
func (m *Map) Digest() [32]byte {
	b, _ := m.MarshalBinary() // never an error
	return sha256.Sum256(b)
}

// Decode decodes the output of MarshalBinary. It returns an error that wraps ErrCodec for any other
// input: another version, a value out of range, an encoding that MarshalBinary would not choose, or
// trailing bytes. For any input it allocates less than 1 MB. It does not retain b.
func Decode(b []byte) (*Map, error) {
	d := decoder{input: b}
	version := d.byte()
	if d.err == nil && version != codecVersion && version != instancesVersion {
		return nil, fmt.Errorf("%w: version %d, this node supports %d and %d", ErrCodec, version, codecVersion, instancesVersion)
	}
	epoch := d.uvarint("epoch", math.MaxUint64)
	shards := int(d.uvarint("shards", MaxShards))
	if shards == 0 {
		d.failf("no shards")
	}
	m := &Map{epoch: Epoch(epoch), members: d.members(version)}
	epochs := d.epochs(m.epoch, shards)
	m.owners = d.owners(shards, len(m.members))
	m.since = d.since(m.owners, epochs)
	if version == instancesVersion {
		m.instances = d.instances(m.owners)
		if d.err == nil && m.codecVersion() != version {
			d.failf("no instances in a map of version %d", version)
		}
	}
	if len(d.input) > 0 {
		d.failf("%d bytes left over", len(d.input))
	}
	if d.err != nil {
		return nil, d.err
	}
	m.updateCounts()
	return m, nil
}

// epochTable returns the distinct ownership epochs of owned shards, newest first.
func (m *Map) epochTable() []Epoch {
	var table []Epoch
	seen := make(map[Epoch]bool)
	for shard, owner := range m.owners {
		if owner != noOwner && !seen[m.since[shard]] {
			seen[m.since[shard]] = true
			table = append(table, m.since[shard])
		}
	}
	slices.SortFunc(table, func(a, b Epoch) int { return cmp.Compare(b, a) })
	return table
}

// ownerWidth returns the number of bits for a value from 0 (orphaned) to members.
func ownerWidth(members int) int { return bits.Len(uint(members)) }

// indexWidth returns the number of bits for an index less than n.
func indexWidth(n int) int { return bits.Len(uint(max(n, 1) - 1)) }
