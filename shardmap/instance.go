package shardmap

import (
	"math/bits"
	"strconv"
	"strings"
)

// MaxInstances is the maximum number of app instances of one node.
const MaxInstances = 32

// Instance is an app instance of a node. The first one is zero; users see it as number 1.
type Instance uint8

// Number returns the number of the instance, as users see it.
func (in Instance) Number() int { return int(in) + 1 }

// InstanceSet is a set of instances of one node with one bit per instance. The zero value stands
// for the first instance only: a node with one app instance.
type InstanceSet uint32

// firstInstanceOnly is the set of the first instance, which Normalized returns as zero.
const firstInstanceOnly InstanceSet = 1

// InstancesUpTo returns the set of the first count instances.
func InstancesUpTo(count int) InstanceSet {
	return InstanceSet(1<<min(count, MaxInstances) - 1).Normalized()
}

// Normalized returns zero for the set of the first instance, so that equal sets have equal values.
func (set InstanceSet) Normalized() InstanceSet {
	if set == firstInstanceOnly {
		return 0
	}
	return set
}

// mask returns the set with one bit for each instance, even for the zero value.
func (set InstanceSet) mask() uint32 {
	if set == 0 {
		return uint32(firstInstanceOnly)
	}
	return uint32(set)
}

// Has reports whether the instance is in the set.
func (set InstanceSet) Has(instance Instance) bool { return set.mask()>>instance&1 == 1 }

// Len returns the number of instances in the set.
func (set InstanceSet) Len() int { return bits.OnesCount32(set.mask()) }

// With returns the set with one more instance. It must be less than MaxInstances.
func (set InstanceSet) With(instance Instance) InstanceSet {
	return InstanceSet(set.mask() | 1<<instance).Normalized()
}

// Without returns the set without the instances for which remove returns true. isEmpty is true if
// none remains; the set is then undefined.
func (set InstanceSet) Without(remove func(Instance) bool) (rest InstanceSet, isEmpty bool) {
	mask := set.mask()
	for _, instance := range set.All() {
		if remove(instance) {
			mask &^= 1 << instance
		}
	}
	return InstanceSet(mask).Normalized(), mask == 0
}

// All returns the instances in the set, in ascending order.
func (set InstanceSet) All() []Instance {
	instances := make([]Instance, 0, set.Len())
	for mask := set.mask(); mask != 0; mask &= mask - 1 {
		instances = append(instances, Instance(bits.TrailingZeros32(mask)))
	}
	return instances
}

// InstanceID returns the id under which records about one app process are stored: the id of the node
// for its first instance, and NODE/NUMBER for any other one. A node with one instance therefore has
// the same records as before it had further ones.
func InstanceID(node NodeID, instance Instance) NodeID {
	if instance == 0 {
		return node
	}
	return InstanceName(node, instance)
}

// InstanceName returns the name of an instance as users write it: NODE/NUMBER.
func InstanceName(node NodeID, instance Instance) NodeID {
	return node + NodeID("/"+strconv.Itoa(instance.Number()))
}

// ParseInstance splits an id that InstanceID or InstanceName has returned. isNamed is true if the id
// contains a number. An id without a valid number is the id of a node.
func ParseInstance(id NodeID) (node NodeID, instance Instance, isNamed bool) {
	name, digits, found := strings.Cut(string(id), "/")
	if !found {
		return id, 0, false
	}
	number, err := strconv.Atoi(digits)
	if err != nil || number < 1 || number > MaxInstances || strconv.Itoa(number) != digits {
		return id, 0, false
	}
	return NodeID(name), Instance(number - 1), true
}
