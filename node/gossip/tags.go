package gossip

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"shardway/endpoints"
)

// protocol is the version of the tags and their meaning. Only development versions used version 1.
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

// The roles of a node.
const (
	RoleNode    = "node"
	RoleGateway = "gateway" // a node that owns no shards
)

// Tags is the data that a member announces. A zero field is not sent.
type Tags struct {
	// Node is the node ID. It is empty if the member only announces endpoints.
	Node string
	// Disk is the ID of its data directory.
	Disk string
	// Cluster is its cluster ID. It is empty before it belongs to a cluster.
	Cluster string
	// Shards is its configured number of shards.
	Shards int
	// Role is RoleNode or RoleGateway.
	Role string
	// BootstrapExpect is the number of nodes with which it bootstraps a cluster.
	BootstrapExpect int
	// Weight is its share of the shards.
	Weight uint32
	// Zone is its availability zone.
	Zone string
	// Version is the version of the program. AppVersion is the configured version of its app.
	Version    string
	AppVersion string
	// Levels has its feature levels, sent as "1-2". A value in another form, perhaps of a later
	// version, counts as not sent.
	Levels Levels
	// Endpoints has addresses by name, without the prefix "ep." of the tag.
	Endpoints map[string]string
}

// Levels has the current level, as far as the log of the member contains it, and the highest level
// that its program supports. Zero means not sent.
type Levels struct{ InForce, Known uint8 }

// String returns the value of the tag, or "" for zero levels.
func (l Levels) String() string {
	if l == (Levels{}) {
		return ""
	}
	return fmt.Sprintf("%d-%d", l.InForce, l.Known)
}

// parseLevels parses the result of String. It returns zero levels for any other text.
func parseLevels(s string) Levels {
	low, high, _ := strings.Cut(s, "-")
	from, err := strconv.ParseUint(low, 10, 8)
	to, err2 := strconv.ParseUint(high, 10, 8)
	if err != nil || err2 != nil || from > to {
		return Levels{}
	}
	return Levels{InForce: uint8(from), Known: uint8(to)}
}

// encode returns the tags for Serf, or an error if they are too long or an endpoint is invalid.
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

// withMaxLengths returns the tags with the longest values that they can get while the node runs,
// so that tags that are too long are detected at the start. The cluster ID is set later, and a
// recovery makes it longer. A member that is not a node only announces endpoints.
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

// maxClusterIDLen is the length of the ID of a recovered cluster, as package clusterid generates it.
const maxClusterIDLen = 16 + len(".") + 16 + len("-") + 4

// isForeign reports whether a Serf member is not a Shardway node. It may announce endpoints.
func isForeign(m map[string]string) bool {
	return m[tagProtocol] == "" && m[tagNode] == "" && m[tagCluster] == ""
}

// decode decodes the tags of a member. It checks the version first, because the meaning of the
// other tags depends on it.
func decode(m map[string]string) (Tags, error) {
	if isForeign(m) {
		return Tags{Endpoints: endpointsOf(m)}, nil
	}
	if v := m[tagProtocol]; v != strconv.Itoa(protocol) {
		return Tags{}, fmt.Errorf("gossip: member uses protocol version %q, this node version %d", v, protocol)
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

// endpointsOf returns the valid endpoints that a member announces, or nil if there are none.
func endpointsOf(m map[string]string) map[string]string {
	if all := endpoints.FromTags(m); len(all) > 0 {
		return all
	}
	return nil
}
