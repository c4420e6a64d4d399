package control

// Kind identifies what a Request asks for. The values are part of the format between nodes.
type Kind string

// The requests to the node that leads.
const (
	NodeViews     Kind = "views"      // return the view of all nodes
	LeaderState   Kind = "leader"     // return since when the node leads, and how long its lease lasts
	AdminAction   Kind = "do"         // perform an administrative action
	Leave         Kind = "leave"      // remove the sender's server from the configuration
	Timing        Kind = "timing"     // change the timing
	FormatVersion Kind = "level"      // return the format version; with Execute, raise it
	Release       Kind = "release"    // record the release notes of the sender's shards
	Plan          Kind = "plan"       // return the moves that the next map would contain
	Implicated    Kind = "implicated" // record the requests that ran at processes that ended
	Suspects      Kind = "suspects"   // return the keys whose requests may have ended processes
	Settings      Kind = "settings"   // record the sender's settings, and return those that differ between nodes
	Registry      Kind = "registry"   // apply a command to the registry, or return the index of the registry for a read
	Unconfirmed   Kind = "unadded"    // return the nodes that are not added because the leader cannot reach their peer ports
)

// The requests to any node.
const (
	BootstrapPromise Kind = "found"     // to a new node: agree that the sender bootstraps the cluster; with Execute, promise it
	NeedsPromise     Kind = "founder"   // to a node that has a promise: report whether it bootstraps or has bootstrapped the cluster
	Duplicate        Kind = "twin"      // return the address of another process with the sender's ID
	Identity         Kind = "who"       // return the identity of the process
	Load             Kind = "load"      // return the load
	Report           Kind = "report"    // return the report for a checkup; with Execute, test which ports the node cannot reach
	Running          Kind = "running"   // return the numbers of requests that the app is processing
	Drain            Kind = "drain"     // return the progress of the drain
	Idle             Kind = "idle"      // return the idle shards
	WebSocketCounts  Kind = "sockets"   // return the numbers of WebSockets by shard
	CloseWebSockets  Kind = "break"     // close upstream connections of resumable WebSockets
	Forget           Kind = "forget"    // from the leader: remove a removed node from gossip
	SuspectsLeader   Kind = "missing"   // to a voter: report whether it suspects its leader
	CheckNode        Kind = "check"     // from the leader: check whether the node reaches another node
	Reachable        Kind = "reachable" // report whether the node reaches the sender's peer port
	Statement        Kind = "state"     // return what the node knows about leader and map
	JoinStatus       Kind = "join"      // from the leader to a node that waits: the state of its join request
	Batch            Kind = "several"   // reply to several requests
)
