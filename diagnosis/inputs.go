package diagnosis

import "time"

// Inputs are what one node knows. The zero value is a node that knows nothing and of
// which nothing can be said.
type Inputs struct {
	// Self is this node, Gateway that it has no app.
	Self    string
	Gateway bool
	// Now is what certificates are judged by; zero: they are not.
	Now time.Time

	// Nodes are all that are known, ordered by id.
	Nodes []Node
	// Leader is who leads, "" if nobody does as far as this node knows, and NoLeader for
	// how long nobody has.
	Leader   string
	NoLeader time.Duration
	// CutOff: this node's disk hangs while it led, so it does not learn who leads.
	CutOff bool

	// Unborn is why there is no cluster for this node; nil: it belongs to one.
	Unborn *Unborn
	// Alone is what became of its attempts to join others; nil: it sees another node, or
	// needs none.
	Alone *Alone

	// JoinConflict are two join addresses that belong to different clusters; nil: there are none.
	JoinConflict *JoinConflict

	// Moved are nodes that announce another address than gossip has.
	Moved []Moved

	// Unreached are nodes that are not added to a cluster because a peer port is not reached.
	Unreached []Unreached

	// Shards are all shards, Orphaned those without an owner, as long as that has lasted;
	// before the first map all are.
	Shards, Orphaned int
	// Epoch is that of the committed map.
	Epoch uint64
	// Mapped: there is a map. NoMap is for how long a leader has made none.
	Mapped bool
	NoMap  time.Duration
	// NoOwner: all that are here are gateways, and have been for a while.
	NoOwner bool
	// EvenVoters: an even number has voted for a while.
	EvenVoters bool
	// NoLease is for how long this node, which should have a lease, has had none.
	NoLease time.Duration
	// Drains: this process is to stop, or was drained on its machine.
	Drains bool
	// Joins: it is not in the map though it wants to be.
	Joins bool
	// Acquiring are shards that this node's app has been acquiring for a while or has
	// failed to acquire, as text, and why it did.
	Acquiring    string
	NotAcquired  string
	AppSilent    time.Duration // for how long this node's app has begun no response while requests wait; zero: it responds
	AppWaiting   int           // the number of these requests, and of those that it has not even read
	AppUnread    int
	Elsewhere    string        // the other process with this node's id; empty: none
	Stopped      time.Duration // for how long the process stood still lately; zero: it did not
	DiskStalled  bool
	DiskTook     time.Duration // the longest write lately if it was too long; zero: it was not
	Lease        time.Duration // of the cluster
	QueueRefused int           // requests refused lately, because too many waited
	QueueWaiting int
	TagsUsed     int // bytes of gossip's tags, of at most TagsMost
	TagsMost     int

	// Level is in force, Next the one that Behind holds up; empty: nobody does.
	Level, Next int
	Behind      string
	// Differences are the settings that differ between nodes, as the leader said last.
	Differences []Difference
	// KeysUnreadable is why this node cannot read the active key configuration; empty: it can.
	KeysUnreadable string
	// Pause is for how long planned moves are paused; empty: they are not.
	Pause string
	// Quarantined are the keys in quarantine, Stale those of them that are let through.
	Quarantined, Stale int
	Poison             []Poison
	Certificates       []Certificate
	// Insecure are sentences on what is open to everybody, each with its remedy.
	Insecure []Exposure
}

// App says how the app of a node is.
type App uint8

// What is known of an app.
const (
	AppUnknown App = iota
	AppHealthy
	AppFailing
)

// Node is one node as another sees it.
type Node struct {
	ID      string
	Gateway bool
	Voter   bool
	// Here: it is heard, as far as anybody can tell. Gone: it has not been for so long that
	// its shards ought to be elsewhere.
	Here, Gone bool
	App        App
	// Kept: its app is unhealthy, and it keeps its shards, because most apps are. Falls is
	// how often its app became unhealthy in a row, and Held for how long it gets no shards
	// for that, though its app has recovered; zero: it is not held back.
	Kept  bool
	Falls int
	Held  time.Duration
	// Why is what its app's health check failed with, if that is known here.
	Why string
	// Drained and Cordoned are what operators asked for. Leaving: its process is to stop.
	Drained, Cordoned, Leaving bool
	// Absent: it restarts in place, within Grace.
	Absent bool
	Grace  time.Duration
	// Shards are those it owns in the committed map.
	Shards int
	// StaleReturns are those of them that have returned to its app, which has not restarted
	// since they left.
	StaleReturns int
	// NotAcquired is the number of its shards whose requests wait because its app does not
	// acquire them. Withheld is the number of shards that went to other nodes for that, or are
	// to, and do not come back yet. Unable: its app acquires nothing, so it gets no shards.
	NotAcquired, Withheld int
	Unable                bool
	// NotReleased is the number of shards that moved within the last ten minutes though the
	// node's app had not released them. NotReleasedWhy is why the first of them did, if that
	// is known here.
	NotReleased    int
	NotReleasedWhy string
	// Unmoved is the number of shards that a safe drain leaves at the node, because its app does
	// not release them. UnmovedWhy is why it did not release the first of them. Only the node itself
	// knows both.
	Unmoved    int
	UnmovedWhy string
	// Lags: its log has not come to the committed map, Applied is the epoch that it has,
	// and that has lasted.
	Lags    bool
	Applied uint64
}

// Unborn is a node without a cluster.
type Unborn struct {
	// Adds is the cluster that it waits to be added to; empty: nobody is there who
	// belongs to one.
	Adds string
	// BootstrapExpect is its --bootstrap-expect, and Here the nodes that are there with the same, ordered.
	BootstrapExpect int
	Here            []string
	// Founder was about to found the cluster, and is gone; empty: nobody.
	Founder string
	// Joins: it was told of others.
	Joins bool
}

// Waits returns the cluster to which the node waits to be added; empty: it does not wait.
func (u *Unborn) Waits() string {
	if u == nil {
		return ""
	}
	return u.Adds
}

// Founds reports whether all nodes that found the cluster are present.
func (u *Unborn) Founds() bool {
	return u != nil && u.Adds == "" && u.Founder == "" && u.BootstrapExpect > 1 && len(u.Here) >= u.BootstrapExpect
}

// Unreached is a peer port that is not reached, so that a node is not added to its cluster.
type Unreached struct {
	// Node is the node whose peer port By does not reach at Addr, and Why is the reason. Addr is
	// empty if the node announces none.
	Node string `json:"node"`
	By   string `json:"by"`
	Addr string `json:"addr"`
	Why  string `json:"why"`
}

// Alone is a node that has reached no other.
type Alone struct {
	// Asked are the addresses that were tried, and what became of it.
	Asked []Attempt
}

// JoinConflict is two join addresses that belong to different clusters.
type JoinConflict struct{ First, Second Party }

// Party is the cluster of a join address: its id, the node that answered and its gossip address.
// Without an address it is this node's own cluster.
type Party struct{ Cluster, Node, Addr string }

// Attempt is one address of --join.
type Attempt struct {
	Addr, Why string
	Secret    bool // somebody is there whose secret this node needs
	Itself    bool // the address led to this node itself
}

// Moved is a node that announces another address than gossip has.
type Moved struct {
	Node, From, To string
	// Why it was not accepted there yet; empty: that is being checked.
	Why string
}

// Poison is a key that was under way at nodes that broke.
type Poison struct {
	Shard uint32
	Hash  uint64
	Nodes []string // in the order of their ends
}

// Certificate is one that this node shows.
type Certificate struct {
	What  string // "of the app port"
	Flag  string // that names its file
	Until time.Time
}

// Exposure is something that is open to everybody who reaches it.
type Exposure struct{ Text, Remedy string }
