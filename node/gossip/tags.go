package gossip

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"shardway/endpoints"
	"shardway/internal/nodelabel"
)

// protocolVersion is the version of the tags and their meaning. Only development versions used version 1.
const protocolVersion = 2

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
	tagRegion   = "region"
	tagRoles    = "roles"
	tagMeta     = "meta"
	tagVersion  = "version"
	tagApp      = "app_version"
	tagLevel    = "level"
	tagExec     = "exec"
)

// execValue is the value of tagExec.
const execValue = "1"

// The roles of a node.
const (
	RoleNode    = ""        // not sent, to save space
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
	// Weight is its share of the shards. Zero means 1.
	Weight uint32
	// Zone is its availability zone.
	Zone string
	// Region is its region.
	Region string
	// Roles are the roles that an operator has given to it. Meta is its metadata. Both are valid
	// according to package nodelabel.
	Roles []string
	Meta  map[string]string
	// Version is the version of the program. AppVersion is the configured version of its app.
	Version    string
	AppVersion string
	// Levels has its feature levels, sent as "1-2". A value in another form, perhaps of a later
	// version, counts as not sent.
	Levels Levels
	// Exec is set if the node starts the processes of its app (--exec).
	Exec bool
	// Endpoints has addresses by name, without the prefix "ep." of the tag.
	Endpoints map[string]string
}

// Levels contains two format versions of a member: InForce, which is in force according to the log of
// the member, and Known, the highest one that its program supports. The zero value means that the
// member announces none.
type Levels struct{ InForce, Known uint8 }

// String returns the value of the tag, or "" for zero levels.
func (l Levels) String() string {
	if l == (Levels{}) {
		return ""
	}
	return fmt.Sprintf("%d-%d", l.InForce, l.Known)
}

// parseLevels parses the result of String. It returns zero levels for any other text.
func parseLevels(text string) Levels {
	fromText, toText, _ := strings.Cut(text, "-")
	from, err := strconv.ParseUint(fromText, 10, 8)
	to, err2 := strconv.ParseUint(toText, 10, 8)
	if err != nil || err2 != nil || from > to {
		return Levels{}
	}
	return Levels{InForce: uint8(from), Known: uint8(to)}
}

// encode returns the tags for Serf, or an error if they are too long or an endpoint is invalid.
func (t Tags) encode() (map[string]string, error) {
	encoded := map[string]string{tagProtocol: strconv.Itoa(protocolVersion)}
	addText := func(key, value string) {
		if value != "" {
			encoded[key] = value
		}
	}
	addNumber := func(key string, value int) {
		if value != 0 {
			encoded[key] = strconv.Itoa(value)
		}
	}
	addText(tagNode, t.Node)
	addText(tagDisk, t.Disk)
	addText(tagCluster, t.Cluster)
	addNumber(tagShards, t.Shards)
	addText(tagRole, t.Role)
	addNumber(tagExpect, t.BootstrapExpect)
	if t.Weight != 1 { // 1 is not sent, to save space
		addNumber(tagWeight, int(t.Weight))
	}
	addText(tagZone, t.Zone)
	addText(tagRegion, t.Region)
	addText(tagRoles, nodelabel.JoinRoles(t.Roles))
	addText(tagMeta, nodelabel.Meta(t.Meta).String())
	addText(tagVersion, t.Version)
	addText(tagApp, t.AppVersion)
	addText(tagLevel, t.Levels.String())
	if t.Exec {
		addText(tagExec, execValue)
	}
	all, err := endpoints.Tags(encoded, t.Endpoints)
	if errors.Is(err, endpoints.ErrTooLong) {
		return nil, t.tooLongError(err)
	}
	if err != nil {
		return nil, fmt.Errorf("gossip: tags of this node (--endpoint, its addresses): %w", err)
	}
	return all, nil
}

// CheckSize returns a *TooLongError if the tags, with the longest values that they can get while the node runs, do not
// fit into an announcement. It returns another error if an endpoint is invalid.
func (t Tags) CheckSize() error {
	_, err := t.withMaxLengths().encode()
	return err
}

// TooLongError reports tags that do not fit into an announcement. It names the setting that takes the most space.
type TooLongError struct {
	// Setting and Value are the name and the value of that setting, and Bytes is its length.
	Setting, Value string
	Bytes          int
	err            error // wraps endpoints.ErrTooLong
}

// Error returns the total size, the setting, its value and the remedy.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("gossip: tags of this node: %v; %s = %q takes %d bytes: shorten it, or one of --meta, --role, --zone, --region, --app-version and --endpoint", e.err, e.Setting, e.Value, e.Bytes)
}

// Unwrap returns an error that wraps endpoints.ErrTooLong.
func (e *TooLongError) Unwrap() error { return e.err }

// tooLongError adds the setting that takes the most space to an error.
func (t Tags) tooLongError(err error) *TooLongError {
	announced := make([]string, 0, len(t.Endpoints))
	for _, name := range slices.Sorted(maps.Keys(t.Endpoints)) {
		switch name {
		case endpoints.HTTP, endpoints.Peer, endpoints.Admin: // the node announces them itself
		default:
			announced = append(announced, name+"="+t.Endpoints[name])
		}
	}
	result := &TooLongError{err: err}
	for _, setting := range []struct{ name, value string }{
		{"meta", nodelabel.Meta(t.Meta).String()},
		{"role", nodelabel.JoinRoles(t.Roles)},
		{"endpoint", strings.Join(announced, ",")},
		{"app-version", t.AppVersion},
		{"zone", t.Zone},
		{"region", t.Region},
		{"node", t.Node},
	} {
		if len(setting.value) > result.Bytes {
			result.Setting, result.Value, result.Bytes = setting.name, setting.value, len(setting.value)
		}
	}
	return result
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
	t.BootstrapExpect = 0 // a node that belongs to a cluster does not send it
	t.Levels = Levels{InForce: math.MaxUint8, Known: math.MaxUint8}
	return t
}

// maxClusterIDLen is the length of the ID of a recovered cluster, as package clusterid generates it.
const maxClusterIDLen = 16 + len(".") + 16 + len("-") + 4

// isOtherProgram reports whether a Serf member is not a Shardway node. Such a member may announce
// endpoints.
func isOtherProgram(tags map[string]string) bool {
	return tags[tagProtocol] == "" && tags[tagNode] == "" && tags[tagCluster] == ""
}

// decodeTags decodes the tags of a member. It checks the version first, because the meaning of the
// other tags depends on it.
func decodeTags(encoded map[string]string) (Tags, error) {
	if isOtherProgram(encoded) {
		return Tags{Endpoints: decodeEndpoints(encoded)}, nil
	}
	if version := encoded[tagProtocol]; version != strconv.Itoa(protocolVersion) {
		return Tags{}, fmt.Errorf("gossip: member uses protocol version %q, this node version %d", version, protocolVersion)
	}
	tags := Tags{
		Node:       encoded[tagNode],
		Disk:       encoded[tagDisk],
		Cluster:    encoded[tagCluster],
		Role:       encoded[tagRole],
		Zone:       valid(encoded[tagZone], nodelabel.IsID),
		Region:     valid(encoded[tagRegion], nodelabel.IsID),
		Roles:      nodelabel.SplitRoles(encoded[tagRoles]),
		Meta:       nodelabel.SplitMeta(encoded[tagMeta]),
		Version:    valid(encoded[tagVersion], nodelabel.IsVersion),
		AppVersion: valid(encoded[tagApp], nodelabel.IsVersion),
		Levels:     parseLevels(encoded[tagLevel]),
		Exec:       encoded[tagExec] == execValue,
	}
	var err error
	parseNumber := func(key string, bits int) uint64 {
		text, ok := encoded[key]
		if !ok || err != nil {
			return 0
		}
		value, parseErr := strconv.ParseUint(text, 10, bits)
		if parseErr != nil {
			err = fmt.Errorf("gossip: tag %s: %w", key, parseErr)
		}
		return value
	}
	tags.Shards = int(parseNumber(tagShards, 31))
	tags.BootstrapExpect = int(parseNumber(tagExpect, 31))
	tags.Weight = max(uint32(parseNumber(tagWeight, 32)), 1)
	tags.Endpoints = decodeEndpoints(encoded)
	return tags, err
}

// valid returns text, or "" if no node announces such text.
func valid(text string, isValid func(string) bool) string {
	if !isValid(text) {
		return ""
	}
	return text
}

// decodeEndpoints returns the valid endpoints that a member announces, or nil if there are none.
func decodeEndpoints(encoded map[string]string) map[string]string {
	if decoded := endpoints.FromTags(encoded); len(decoded) > 0 {
		return decoded
	}
	return nil
}
