package gossip

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"shardway/endpoints"
)

// protocol is the version of the tags and of what they promise. Version 1 was spoken by
// development versions only.
const protocol = 2

const (
	tagProtocol = "v"
	tagNode     = "node"
	tagDisk     = "disk"
	tagCluster  = "cluster"
	tagShards   = "shards"
	tagRole     = "role"
	tagExpect   = "expect"
	tagWeight   = "weight"
	tagZone     = "zone"
	tagVersion  = "version"
	tagApp      = "app_version"
	tagLevel    = "level"
)

// Tags is what a member says about itself. A zero field is not sent.
type Tags struct {
	// Node is the node's id; empty: the member only announces endpoints.
	Node string
	// Disk is the id of its data directory.
	Disk string
	// Cluster is the cluster it belongs to; empty: none yet.
	Cluster string
	// Shards is the number of shards it was started with.
	Shards int
	// Role is "node" or "gateway".
	Role string
	// BootstrapExpect is how many nodes it wants before the cluster is born.
	BootstrapExpect int
	// Weight is its share of the shards.
	Weight uint32
	// Zone is where it stands.
	Zone string
	// Version is the version of the program, AppVersion what the operator calls that of
	// the app behind it.
	Version    string
	AppVersion string
	// Levels are those of what is written, sent as "1-2". What cannot be read of
	// them, a later version may mean: it counts as not said.
	Levels Levels
	// Endpoints are addresses by name, without the "ep." of the tag.
	Endpoints map[string]string
}

// Levels are the level in force, as far as the member's log tells, and the highest
// one that its program knows; zero: they were not said.
type Levels struct{ InForce, Known uint8 }

// String returns the levels as the tag has them, "" if they were not said.
func (l Levels) String() string {
	if l == (Levels{}) {
		return ""
	}
	return fmt.Sprintf("%d-%d", l.InForce, l.Known)
}

// parseLevels reads what String returned, and nothing else.
func parseLevels(s string) Levels {
	low, high, _ := strings.Cut(s, "-")
	from, err := strconv.ParseUint(low, 10, 8)
	to, err2 := strconv.ParseUint(high, 10, 8)
	if err != nil || err2 != nil || from > to {
		return Levels{}
	}
	return Levels{InForce: uint8(from), Known: uint8(to)}
}

// encode returns the tags as Serf has them, or an error if they are too long or
// an endpoint cannot be dialled.
func (t Tags) encode() (map[string]string, error) {
	m := map[string]string{tagProtocol: strconv.Itoa(protocol)}
	text := func(key, v string) {
		if v != "" {
			m[key] = v
		}
	}
	number := func(key string, n int) {
		if n != 0 {
			m[key] = strconv.Itoa(n)
		}
	}
	text(tagNode, t.Node)
	text(tagDisk, t.Disk)
	text(tagCluster, t.Cluster)
	number(tagShards, t.Shards)
	text(tagRole, t.Role)
	number(tagExpect, t.BootstrapExpect)
	number(tagWeight, int(t.Weight))
	text(tagZone, t.Zone)
	text(tagVersion, t.Version)
	text(tagApp, t.AppVersion)
	text(tagLevel, t.Levels.String())
	all, err := endpoints.Tags(m, t.Endpoints)
	if err != nil {
		return nil, fmt.Errorf("gossip: what this node says about itself (--zone, --app-version, --endpoint, its own addresses): %w", err)
	}
	return all, nil
}

// grown returns the tags as long as they may get while the node runs, so that what does
// not fit is found at the start: the id of a cluster comes later, and a recovery makes
// it longer. A member that is no node announces endpoints only.
func (t Tags) withMaxLengths() Tags {
	if t.Node == "" {
		return t
	}
	if missing := maxClusterIDLen - len(t.Cluster); missing > 0 {
		t.Cluster += strings.Repeat("x", missing)
	}
	t.Levels = Levels{InForce: math.MaxUint8, Known: math.MaxUint8}
	return t
}

// longestCluster is the length of a recovered cluster's id, as package lineage makes it.
const maxClusterIDLen = 16 + len(".") + 16 + len("-") + 4

// foreign reports a Serf member of some other make. It may announce endpoints.
func isForeign(m map[string]string) bool {
	return m[tagProtocol] == "" && m[tagNode] == "" && m[tagCluster] == ""
}

// decode reads the tags of a member. The version is checked first: with another
// one the rest may mean anything.
func decode(m map[string]string) (Tags, error) {
	if isForeign(m) {
		return Tags{Endpoints: endpointsOf(m)}, nil
	}
	if v := m[tagProtocol]; v != strconv.Itoa(protocol) {
		return Tags{}, fmt.Errorf("gossip: member speaks version %q, this node version %d", v, protocol)
	}
	t := Tags{
		Node:       m[tagNode],
		Disk:       m[tagDisk],
		Cluster:    m[tagCluster],
		Role:       m[tagRole],
		Zone:       m[tagZone],
		Version:    m[tagVersion],
		AppVersion: m[tagApp],
		Levels:     parseLevels(m[tagLevel]),
	}
	var err error
	number := func(key string, bits int) uint64 {
		s, ok := m[key]
		if !ok || err != nil {
			return 0
		}
		n, e := strconv.ParseUint(s, 10, bits)
		if e != nil {
			err = fmt.Errorf("gossip: tag %s: %w", key, e)
		}
		return n
	}
	t.Shards = int(number(tagShards, 31))
	t.BootstrapExpect = int(number(tagExpect, 31))
	t.Weight = uint32(number(tagWeight, 32))
	t.Endpoints = endpointsOf(m)
	return t, err
}

// announced returns what a member announces, nil if nothing that can be dialled.
func endpointsOf(m map[string]string) map[string]string {
	if all := endpoints.FromTags(m); len(all) > 0 {
		return all
	}
	return nil
}
