package diagnosis

import "time"

// Inputs is the state of the cluster from the view of one node. Findings returns no findings for
// the zero value.
type Inputs struct {
	// This node, and the nodes that it knows.

	// Self is the id of this node. Gateway is set if it has no app.
	Self    string
	Gateway bool
	// Now is the time for checks of certificates. Zero means no checks.
	Now time.Time
	// Nodes contains all known nodes, sorted by id.
	Nodes []Node

	// Leader and voters.

	// Leader is the id of the leader; empty if this node knows none. NoLeaderFor is how long it has
	// known none.
	Leader      string
	NoLeaderFor time.Duration
	// LeaderUnknown is set if the disk of this node stalled while the node was the leader, so it
	// cannot find out which node is leader now.
	LeaderUnknown bool
	// RaftTimeout is the time without a leader after which a voter starts an election. Zero means the default.
	RaftTimeout time.Duration
	// EvenVoters is set if the number of voters has been even for a while.
	EvenVoters bool

	// Bootstrap and joining.

	// Bootstrap describes why this node belongs to no cluster. It is nil if the node belongs to
	// one.
	Bootstrap *Bootstrap
	// JoinFailure contains the results of the attempts to join other nodes. It is nil if this node
	// has reached another node, or needs none.
	JoinFailure *JoinFailure
	// JoinConflict contains two join addresses of different clusters, or is nil if there are none.
	JoinConflict *JoinConflict
	// AddressChanges contains the nodes that announce an address that differs from the one in
	// gossip.
	AddressChanges []AddressChange
	// UnreachablePeerPorts contains the nodes that are not added because a peer port is not
	// reachable.
	UnreachablePeerPorts []UnreachablePeerPort

	// OwnJoin is the state of the join request of this node, or nil if it does not wait for an approval.
	OwnJoin *OwnJoin
	// JoinRequests contains the nodes that wait for an approval to join, ascending by node.
	JoinRequests []JoinRequest

	// The shard map, and the part of this node in it.

	// Shards is the number of shards of the services that have started. Orphaned is the number of these shards that
	// have had no owner for a while; before the first map, these are all shards. OrphanedServices are the services of
	// which no shard has an owner, if the cluster has several.
	Shards, Orphaned int
	OrphanedServices []string
	// UnstartedServices are the services that no node has run yet.
	UnstartedServices []UnstartedService
	// Epoch is the epoch of the committed map, and ProposedEpoch that of the last proposed map.
	Epoch, ProposedEpoch uint64
	// HasMap is set if there is a map. NoMapFor is how long a leader has proposed no first map.
	HasMap   bool
	NoMapFor time.Duration
	// OnlyGateways is set if all live nodes have been gateways for a while.
	OnlyGateways bool
	// Lease is the lease duration of the cluster. NoLeaseFor is how long this node has had no lease
	// although it should have one.
	Lease      time.Duration
	NoLeaseFor time.Duration
	// HasOperated is set if this process has known a leader, and has held a lease if it owned
	// shards.
	HasOperated bool
	// Stopping is set if this process will stop, or that drain --local was run.
	Stopping bool
	// NotInMap is set if this node is not in the map yet although it should be.
	NotInMap bool

	// Contradictions are observations that contradict a guarantee.
	Contradictions Contradictions

	// The app of this node.

	// Acquiring describes the shards that the app has been acquiring for a while; empty means none.
	// AcquireError is the error of shards that it failed to acquire; empty means no error.
	Acquiring    string
	AcquireError string
	// AppSilentFor is how long the app has begun no response while requests wait. Zero means that it
	// responds. AppPendingRequests is the number of these requests, and AppUnreadRequests the number
	// of them that the app has not read.
	AppSilentFor       time.Duration
	AppPendingRequests int
	AppUnreadRequests  int

	// The machine and the process of this node.

	DuplicateAddr string        // address of another process with the id of this node; empty means none
	PausedFor     time.Duration // duration of a recent pause of the process; zero means none
	DiskStalled   bool          // a write to the disk does not end
	SlowestWrite  time.Duration // longest recent write, if it was too long; otherwise zero
	// WebhookReceiver is the receiver of the events of this node (--webhook), without secrets; empty means none.
	// WebhookFailingFor is the time since the first of the last requests that failed in a row, and WebhookError the error
	// of the last one. WebhookLost is the number of events that were lost recently.
	WebhookReceiver   string
	WebhookFailingFor time.Duration
	WebhookError      string
	WebhookLost       int
	// FailingProcesses is the number of keys or shards whose app process fails repeatedly (--exec).
	// ProcessError is the error of the process that has failed most often.
	FailingProcesses  int
	ProcessError      string
	QueueRefused      int // requests that were refused recently because the queue was full
	QueueWaiting      int // requests in the queue
	GossipTagBytes    int // size of the gossip tags
	MaxGossipTagBytes int // limit of GossipTagBytes; zero means that it is unknown

	// Settings and requests of operators.

	// FormatVersion is the active format version. UpgradeBlocker names the nodes that prevent
	// NextFormatVersion. It is empty if no node does.
	FormatVersion, NextFormatVersion int
	UpgradeBlocker                   string
	// Differences contains the settings that differ between nodes, as last reported by the leader.
	Differences []Difference
	// ServiceConflicts contains the services whose numbers of shards in the configuration of this node differ from
	// those in the cluster.
	ServiceConflicts []ServiceConflict
	// KeyConfigError is the error of reading the active key configuration, or empty.
	KeyConfigError string
	// PausedMovesFor is the duration of the pause of planned moves, or empty if there is no pause.
	PausedMovesFor string
	// MissingRole is the role to which shards are restricted, if no alive node with it can get further shards.
	// Otherwise it is empty.
	MissingRole string
	// Quarantined is the number of keys in quarantine. StaleQuarantines is the number of these keys
	// whose requests are admitted anyway.
	Quarantined, StaleQuarantines int
	// PoisonSuspects contains the keys whose requests may crash nodes.
	PoisonSuspects []Poison

	// Security.

	// Certificates contains the certificates that this node presents.
	Certificates []Certificate
	// Exposures contains the unprotected ports, each with a remedy.
	Exposures []Exposure
}

// App is the health of the app of a node.
type App uint8

// Health states of an app.
const (
	AppUnknown App = iota
	AppHealthy
	AppFailing
)

// Instance is an unhealthy app instance of a node.
type Instance struct {
	Number int
	// HealthError is the error of its health check. It is empty if this node does not know it.
	HealthError string
}

// Node is the state of a node as this node sees it.
type Node struct {
	ID      string
	Gateway bool
	Voter   bool
	// Alive is set if the node is alive as far as known. Lost is set if it has been unresponsive
	// for so long that other nodes should own its shards.
	Alive, Lost bool
	// Failed and Left mean that the list of nodes shows the node as failed, or as left.
	Failed, Left bool
	// App is the health of its app. HealthError is the error of the health check, if known.
	App         App
	HealthError string
	// UnhealthyInstances are the app instances of the node that have been unhealthy for a while. It is empty
	// for a node with one instance, whose health is App.
	UnhealthyInstances []Instance
	// KeepsShards is set if the app is unhealthy and keeps its shards because most apps are
	// unhealthy. FailuresInRow is how often in a row the app became unhealthy. NoShardsFor is how
	// long the node gets no shards for that reason although the app has recovered. Zero means that
	// it may get shards.
	KeepsShards   bool
	FailuresInRow int
	NoShardsFor   time.Duration
	// Drained and Cordoned are requests of operators. Stopping is set if its process will stop.
	Drained, Cordoned, Stopping bool
	// MarkedFailed is set if an operator has marked the node as failed.
	MarkedFailed bool
	// Restarting is set if the node restarts in place, within Grace.
	Restarting bool
	Grace      time.Duration
	// Unreachable is set if the leader excluded it from the shard map because most other nodes
	// could not connect to it. Reporters are the nodes that cannot connect to it now, as the leader
	// reports.
	Unreachable bool
	Reporters   []string
	// Shards is the number of shards that it owns in the committed map.
	Shards int
	// StaleReturns is the number of these shards that returned to its app although the app has not
	// restarted since they left.
	StaleReturns int
	// WaitingShards is the number of its shards whose requests wait because its app does not
	// acquire them. ShardsMovedAway is the number of shards that move to other nodes for that
	// reason and do not return yet. CannotAcquire is set if its app fails to acquire any shard, so
	// the node gets none.
	WaitingShards, ShardsMovedAway int
	CannotAcquire                  bool
	// UnreleasedMoves is the number of shards that moved within the last ten minutes although the
	// app of the node had not released them. UnreleasedReason is the reason for the first of them,
	// if known.
	UnreleasedMoves  int
	UnreleasedReason string
	// UnmovedShards is the number of shards that a safe drain leaves at the node, because its app
	// does not release them. UnmovedReason is why it did not release the first of them. Only the
	// node itself knows both.
	UnmovedShards int
	UnmovedReason string
	// Lagging is set if its log has lacked the committed map for a while. AppliedEpoch is the epoch
	// that it has.
	Lagging      bool
	AppliedEpoch uint64
}

// Bootstrap is the state of a node that does not belong to a cluster yet.
type Bootstrap struct {
	// ClusterToJoin is the cluster to which the node waits to be added. It is empty if no reachable
	// node belongs to a cluster.
	ClusterToJoin string
	// BootstrapExpect is the --bootstrap-expect of the node. Peers contains the live nodes with the
	// same value, sorted.
	BootstrapExpect int
	Peers           []string
	// MissingBootstrapper is a failed node that was about to bootstrap the cluster, or empty.
	MissingBootstrapper string
	// HasJoinAddrs is set if --join contains addresses of other nodes.
	HasJoinAddrs bool
}

// WaitsForCluster returns the cluster to which the node waits to be added, or "" if it does not
// wait.
func (b *Bootstrap) WaitsForCluster() string {
	if b == nil {
		return ""
	}
	return b.ClusterToJoin
}

// IsBootstrapper reports whether the cluster is about to be bootstrapped: all expected nodes are
// present, and no cluster exists that the node could join.
func (b *Bootstrap) IsBootstrapper() bool {
	if b == nil || b.ClusterToJoin != "" || b.MissingBootstrapper != "" {
		return false
	}
	return b.BootstrapExpect > 1 && len(b.Peers) >= b.BootstrapExpect
}

// UnreachablePeerPort is an unreachable peer port that prevents the addition of a node to its
// cluster.
type UnreachablePeerPort struct {
	// Node is the node whose peer port the node ReportedBy does not reach at Addr, and Why is the
	// reason. Addr is empty if Node announces no address.
	Node       string `json:"node"`
	ReportedBy string `json:"by"`
	Addr       string `json:"addr"`
	Why        string `json:"why"`
}

// OwnJoin is the state of the join request of this node.
type OwnJoin struct {
	// Ticket identifies the request; zero means that the request is not recorded, for Reason.
	Ticket uint64
	// Refused and Expired are set if an operator has refused the request for Reason, or if no operator has decided in time.
	Refused, Expired bool
	Reason           string
}

// JoinRequest is a node that waits for an approval to join the cluster. Long is set if it has waited for so long that
// this is a problem.
type JoinRequest struct {
	Node   string
	Ticket uint64
	Long   bool
}

// JoinFailure is the state of a node that has reached no other node.
type JoinFailure struct {
	// Attempts contains the addresses that were tried, with the results.
	Attempts []JoinAttempt
}

// JoinConflict is two join addresses that belong to different clusters.
type JoinConflict struct{ First, Second JoinTarget }

// JoinTarget is the cluster of a join address: its id, the node that responded and its gossip
// address. Without an address it is this node's own cluster.
type JoinTarget struct{ Cluster, Node, Addr string }

// JoinAttempt is one address of --join.
type JoinAttempt struct {
	Addr, Why   string
	OtherSecret bool // a node with another secret responded
	ReachedSelf bool // the address led to this node itself
}

// AddressChange is a node that announces an address that differs from the one in gossip.
type AddressChange struct {
	Node, From, To string
	// Why is the reason why the new address is not accepted yet. It is empty while the address is
	// being checked.
	Why string
}

// Poison is a key whose requests may crash nodes: each time one of the Nodes crashed, a request
// for the key was in flight there.
type Poison struct {
	Shard uint32 // within Service, if it is not empty
	// Service is the service of the shard; empty if the cluster has no list of services.
	Service string
	Hash    uint64
	Nodes   []string // in the order of their crashes
}

// Certificate is a certificate that this node presents.
type Certificate struct {
	Purpose   string // "of the app port"
	Flag      string // the flag that sets its file
	ExpiresAt time.Time
}

// Exposure is an unprotected port.
type Exposure struct{ Text, Remedy string }
