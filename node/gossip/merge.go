package gossip

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/serf/serf"

	"shardway/endpoints"
	"shardway/node/clusterid"
)

// RefusedError is the error for a member that does not belong to the cluster of this node. It
// contains the tag that differs and both of its values.
type RefusedError struct {
	// Member and Addr are the name and the gossip address of the other node.
	Member, Addr string
	// Tag is the name of the tag that differs: "cluster", "shards", "level" or "version". It is "node" for a
	// member that is not a node and has the name of one.
	Tag string
	// LocalValue and RemoteValue are the values of this tag on this node and on the other node.
	LocalValue, RemoteValue string
	// PeerAddr is the peer address that the other node announces. Empty means that it announces
	// none.
	PeerAddr string
	// Superseded is set if the cluster of the other node claims to be a recovery of the cluster of
	// this node. This node must then stop, even if it serves requests. The claim comes from gossip
	// and may be outdated.
	Superseded bool
	// remoteMustChange is set if the operator must change the other node, not this one. This
	// applies if only this node has a cluster, if the cluster of the other node is superseded by
	// the cluster of this node, or if the other node does not support the format version in force
	// here.
	remoteMustChange bool
	// noCluster is set if this node has no cluster yet. LocalValue is then the cluster that
	// responded first.
	noCluster bool
}

// Error contains both values and the remedy.
func (e *RefusedError) Error() string {
	member := fmt.Sprintf("gossip: node %q at %s", e.Member, e.Addr)
	switch e.Tag {
	case tagShards:
		return fmt.Sprintf("%s has %s shards, this node has %s: start this one with --shards %s, or join another cluster", member, e.RemoteValue, e.LocalValue, e.RemoteValue)
	case tagCluster:
		if e.Superseded {
			return fmt.Sprintf("%s belongs to cluster %s, which was recovered from this node's cluster %s without it: the contents of this data directory are no longer valid; start with an empty --data directory to join", member, e.RemoteValue, e.LocalValue)
		}
		if e.noCluster {
			return fmt.Sprintf("%s belongs to cluster %s, another join address to cluster %s: name addresses of one cluster in --join", member, e.RemoteValue, e.LocalValue)
		}
		return fmt.Sprintf("%s belongs to cluster %s, the data directory of this node to cluster %s: join another address, or start with an empty --data directory", member, e.RemoteValue, e.LocalValue)
	case tagNode:
		return fmt.Sprintf("gossip: member %q at %s is not a node and has the name of a node: start it under another name", e.Member, e.Addr)
	case tagLevel:
		if e.remoteMustChange {
			return fmt.Sprintf("%s supports format version %s, and format version %s is in force in this node's cluster: it must run the version of the other nodes", member, e.RemoteValue, e.LocalValue)
		}
		return fmt.Sprintf("%s belongs to a cluster in which format version %s is in force, and this program supports format version %s: run the version of the other nodes", member, e.RemoteValue, e.LocalValue)
	default:
		return fmt.Sprintf("%s uses protocol version %s, this node version %s: run compatible versions", member, e.RemoteValue, e.LocalValue)
	}
}

// mergeDelegate decides which members this node accepts. Serf calls it for the members of a state
// exchange and for each alive message. memberlist holds its lock during a call, so mergeDelegate
// only compares values.
type mergeDelegate struct {
	self        string
	localTags   *atomic.Pointer[Tags]
	choice      *clusterChoice         // nil means that a node without a cluster accepts members of any cluster
	isServer    func(node string) bool // see Options.RetainForever
	lastRefusal atomic.Pointer[RefusedError]
	onRefusal   func(*RefusedError)
	// onAccepted is called with each accepted member. nil means no call.
	onAccepted func(*serf.Member)
}

var _ serf.MergeDelegate = (*mergeDelegate)(nil)

// NotifyMerge refuses all members if one of them belongs to another cluster. If several members are
// refused, it returns the error of a member that supersedes the cluster of this node, because this
// node must then stop. It ignores members that have left, because their cluster may no longer
// exist.
//
// A member that takes the name of a node is refused alone. Other members of a state exchange are accepted: Serf
// calls NotifyMerge for each of them again.
func (d *mergeDelegate) NotifyMerge(members []*serf.Member) error {
	if len(members) == 1 && d.takesNodeID(members[0]) {
		return d.refuse(&RefusedError{Member: members[0].Name, Addr: addrOf(*members[0]).String(), Tag: tagNode, remoteMustChange: true})
	}
	local := d.localTags.Load()
	isChoosing := local.Cluster == "" && d.choice != nil // this node has no cluster yet
	if required := d.requiredCluster(members); isChoosing && required != "" {
		withCluster := *local
		withCluster.Cluster = required
		local = &withCluster
	}
	var refusal *RefusedError
	for _, member := range members {
		if d.isSelfOrLeft(member) {
			continue
		}
		refused := checkMember(local, member)
		if refused == nil {
			continue
		}
		if isChoosing && refused.Tag == tagCluster {
			refused.noCluster, refused.Superseded, refused.remoteMustChange = true, false, false
			refusal = refused
			continue
		}
		isMoreImportant := refusal != nil && refused.Superseded && !refusal.Superseded
		if refusal == nil || isMoreImportant {
			refusal = refused
		}
	}
	if refusal == nil {
		d.accept(members, isChoosing)
		return nil
	}
	return d.refuse(refusal)
}

// refuse records and reports a refusal, and returns it.
func (d *mergeDelegate) refuse(refusal *RefusedError) error {
	d.lastRefusal.Store(refusal)
	d.onRefusal(refusal)
	return refusal
}

// accept informs the owner of mergeDelegate of accepted members. If this node is choosing its cluster, it records
// the first of them.
func (d *mergeDelegate) accept(members []*serf.Member, isChoosing bool) {
	for _, member := range members {
		if d.onAccepted != nil && member.Status != serf.StatusLeft {
			d.onAccepted(member)
		}
		if isChoosing && !d.isSelfOrLeft(member) {
			d.choice.recordFirst(member)
		}
	}
}

// isSelfOrLeft reports whether a member is this node, or has left.
func (d *mergeDelegate) isSelfOrLeft(member *serf.Member) bool {
	return member.Name == d.self || member.Status == serf.StatusLeft
}

// requiredCluster returns the cluster to which members must belong while this node has no cluster:
// the cluster that responded first, or the cluster of any of the members. It returns "" if no
// cluster is known.
func (d *mergeDelegate) requiredCluster(members []*serf.Member) string {
	if d.choice == nil {
		return ""
	}
	if first := d.choice.firstJoined.Load(); first != nil {
		return first.Cluster
	}
	for _, member := range members {
		if cluster := member.Tags[tagCluster]; cluster != "" && !d.isSelfOrLeft(member) {
			return cluster
		}
	}
	return ""
}

// checkMember compares the tags of this node and of a member, and returns nil if both can belong to
// the same cluster. It skips tags that only one of them has, for example because the member only
// announces endpoints.
func checkMember(local *Tags, serfMember *serf.Member) *RefusedError {
	if isOtherProgram(serfMember.Tags) {
		return nil
	}
	member := newMember(*serfMember)
	remoteCluster := serfMember.Tags[tagCluster]
	remoteIsBehind := remoteCluster == "" || clusterid.Supersedes(local.Cluster, remoteCluster)
	refused := &RefusedError{
		Member: serfMember.Name, Addr: member.Addr.String(), PeerAddr: member.Tags.Endpoints[endpoints.Peer],
		remoteMustChange: local.Cluster != "" && remoteIsBehind,
	}
	version, localVersion := serfMember.Tags[tagProtocol], strconv.Itoa(protocolVersion)
	if version != localVersion {
		refused.Tag, refused.LocalValue, refused.RemoteValue = "version", localVersion, fmt.Sprintf("%q", version)
		return refused
	}
	shards, localShards := serfMember.Tags[tagShards], strconv.Itoa(local.Shards)
	if shards != "" && local.Shards != 0 && shards != localShards {
		refused.Tag, refused.LocalValue, refused.RemoteValue = tagShards, localShards, shards
		return refused
	}
	if remoteCluster != "" && local.Cluster != "" && remoteCluster != local.Cluster {
		refused.Tag, refused.LocalValue, refused.RemoteValue = tagCluster, local.Cluster, remoteCluster
		refused.Superseded = clusterid.Supersedes(remoteCluster, local.Cluster)
		return refused
	}
	return checkFormatVersions(refused, local.Levels, parseLevels(serfMember.Tags[tagLevel]))
}

// checkFormatVersions compares the format versions of this node and of a member. A node cannot
// decode messages in a format version that it does not support. As a result, if the version that is
// in force at one of them is newer than the other one supports, checkFormatVersions completes
// refused and returns it. Otherwise it returns nil. It also returns nil if one of them announces no
// format versions (zero Levels), because there is nothing to compare.
func checkFormatVersions(refused *RefusedError, local, remote Levels) *RefusedError {
	format := func(n uint8) string { return strconv.Itoa(int(n)) }
	switch {
	case local == (Levels{}) || remote == (Levels{}):
		return nil
	case remote.InForce > local.Known:
		refused.Tag, refused.LocalValue, refused.RemoteValue, refused.remoteMustChange = tagLevel, format(local.Known), format(remote.InForce), false
		return refused
	case local.InForce > remote.Known:
		refused.Tag, refused.LocalValue, refused.RemoteValue, refused.remoteMustChange = tagLevel, format(local.InForce), format(remote.Known), true
		return refused
	}
	return nil
}
