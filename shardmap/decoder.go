package shardmap

import (
	"encoding/binary"
	"fmt"
	"math"
)

// decoder reads the fields of an encoded map from input. It keeps the first error. After an error all
// methods return zero values.
type decoder struct {
	input []byte
	err   error
}

// failf sets the error, unless one is already set. It drops the remaining input.
func (d *decoder) failf(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrCodec, fmt.Sprintf(format, args...))
	}
	d.input = nil
}

// bytes returns the next n bytes, or nil if there are fewer. field is the name of the field for the
// error.
func (d *decoder) bytes(size int, field string) []byte {
	if d.err != nil {
		return nil
	}
	if size > len(d.input) {
		d.failf("ends within %s", field)
		return nil
	}
	value := d.input[:size]
	d.input = d.input[size:]
	return value
}

// byte reads the version byte.
func (d *decoder) byte() byte {
	if b := d.bytes(1, "version"); b != nil {
		return b[0]
	}
	return 0
}

// uvarint reads a number up to limit. The number must be encoded in its shortest form.
func (d *decoder) uvarint(field string, limit uint64) uint64 {
	if d.err != nil {
		return 0
	}
	value, length := binary.Uvarint(d.input)
	switch {
	case length == 0:
		d.failf("ends within %s", field)
	case length < 0 || value > limit:
		d.failf("%s above %d", field, limit)
	case length > 1 && d.input[length-1] == 0:
		d.failf("%s in a longer form than needed", field)
	}
	if d.err != nil {
		return 0
	}
	d.input = d.input[length:]
	return value
}

// members reads the member table. The capacity of the result is limited by the length of the input,
// so that a false number of members cannot cause a large allocation.
func (d *decoder) members(version byte) []Member {
	count := int(d.uvarint("members", MaxMembers))
	members := make([]Member, 0, min(count, len(d.input)/3)) // a member takes at least 3 bytes
	for range count {
		id := NodeID(d.bytes(int(d.uvarint("length of id", MaxID)), "id"))
		member := Member{ID: id, Weight: uint32(d.uvarint("weight", MaxWeight))}
		if version == instancesVersion {
			member.Instances = InstanceSet(d.uvarint("instances", math.MaxUint32))
		}
		if member.Instances != member.Instances.Normalized() {
			d.failf("instances %b not normalized", member.Instances)
		}
		if d.err != nil {
			return nil
		}
		if err := member.validate(); err != nil {
			d.failf("%v", err)
			return nil
		}
		if read := len(members); read > 0 && members[read-1].ID >= id {
			d.failf("member %q not after %q", id, members[read-1].ID)
			return nil
		}
		members = append(members, member)
	}
	return members
}

// epochs reads the table of ownership epochs. They must be distinct, sorted from newest to oldest,
// and not newer than epoch, the epoch of the map.
func (d *decoder) epochs(epoch Epoch, shards int) []Epoch {
	count := int(d.uvarint("ownership epochs", uint64(shards)))
	table := make([]Epoch, 0, min(count, len(d.input)))
	for i := range count {
		distance := d.uvarint("distance of ownership epoch", uint64(epoch))
		if d.err != nil {
			return nil
		}
		if i > 0 && distance == 0 {
			d.failf("ownership epoch %d twice", epoch)
			return nil
		}
		epoch -= Epoch(distance)
		table = append(table, epoch)
	}
	return table
}

// owners reads the owner of each shard.
func (d *decoder) owners(shards, members int) []int16 {
	width := ownerWidth(members)
	reader := bitReader{in: d.bytes((shards*width+7)/8, "owners")}
	if d.err != nil {
		return nil
	}
	owners := make([]int16, shards)
	for shard := range owners {
		owner := reader.read(width)
		if owner > uint64(members) {
			d.failf("owner %d of shard %d among %d members", owner, shard, members)
			return nil
		}
		owners[shard] = int16(owner) - 1
	}
	if !reader.onlyPadding() {
		d.failf("owners not padded with zeros")
	}
	return owners
}

// since reads the ownership epoch of each owned shard. Each epoch of the table must be used,
// because otherwise one map would have several encodings.
func (d *decoder) since(owners []int16, table []Epoch) []Epoch {
	if d.err != nil {
		return nil
	}
	owned := 0
	for _, owner := range owners {
		if owner != noOwner {
			owned++
		}
	}
	if (owned > 0) != (len(table) > 0) {
		d.failf("%d ownership epochs for %d owned shards", len(table), owned)
		return nil
	}
	width := indexWidth(len(table))
	reader := bitReader{in: d.bytes((owned*width+7)/8, "since")}
	if d.err != nil {
		return nil
	}
	since := make([]Epoch, len(owners))
	used := make([]bool, len(table))
	for shard, owner := range owners {
		if owner == noOwner {
			continue
		}
		index := reader.read(width)
		if index >= uint64(len(table)) {
			d.failf("ownership epoch %d of shard %d among %d", index, shard, len(table))
			return nil
		}
		since[shard], used[index] = table[index], true
	}
	if !reader.onlyPadding() {
		d.failf("since not padded with zeros")
	}
	for index, isUsed := range used {
		if !isUsed {
			d.failf("ownership epoch %d unused", table[index])
		}
	}
	return since
}

// instances reads the instance of each owned shard. It returns nil if all are the first one.
func (d *decoder) instances(owners []int16) []Instance {
	largest := d.uvarint("largest instance", MaxInstances-1)
	if d.err != nil || largest == 0 {
		return nil
	}
	owned := 0
	for _, owner := range owners {
		if owner != noOwner {
			owned++
		}
	}
	width := indexWidth(int(largest) + 1)
	reader := bitReader{in: d.bytes((owned*width+7)/8, "instances")}
	if d.err != nil {
		return nil
	}
	instances, found := make([]Instance, len(owners)), uint64(0)
	for shard, owner := range owners {
		if owner != noOwner {
			value := reader.read(width)
			instances[shard] = Instance(value)
			found = max(found, value)
		}
	}
	if found != largest {
		d.failf("largest instance %d, the map says %d", found, largest)
	}
	if !reader.onlyPadding() {
		d.failf("instances not padded with zeros")
	}
	return instances
}
