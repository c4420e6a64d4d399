package control

// Kind identifies what a Request asks for. The values are part of the format between nodes.
type Kind string

// The requests to the node that leads.
const (
	Views       Kind = "views"      // return the view of all nodes
	Do          Kind = "do"         // perform an administrative action
	Leave       Kind = "leave"      // remove my server from the configuration
	Timing      Kind = "timing"     // change the timing
	Level       Kind = "level"      // return the format version, or raise it if Firm
	Release     Kind = "release"    // record the release notes of my shards
	Plan        Kind = "plan"       // what would the next map move?
	Implicated  Kind = "implicated" // record the requests that ran at processes that ended
	Suspects    Kind = "suspects"   // which keys may have ended processes?
	Settings    Kind = "settings"   // these are my settings; which ones differ between nodes?
	Unconfirmed Kind = "unadded"    // which nodes are not added because you cannot reach their peer ports?
)

// The requests to any node.
const (
	Promise   Kind = "found"     // to a new node: may I bootstrap the cluster?
	Needs     Kind = "founder"   // to a node that may bootstrap the cluster: do you, or have you?
	Duplicate Kind = "twin"      // does another process use my ID?
	Identity  Kind = "who"       // which process are you?
	Load      Kind = "load"      // return your load
	Report    Kind = "report"    // return your report; if Firm, with the ports that you cannot reach
	Running   Kind = "running"   // return the requests that run at your app
	Drain     Kind = "drain"     // return the progress of your drain
	Idle      Kind = "idle"      // which of your shards are idle?
	Sockets   Kind = "sockets"   // which shards have WebSockets at you?
	Break     Kind = "break"     // close upstream connections of resumable WebSockets
	Forget    Kind = "forget"    // from the leader: remove a removed node from gossip
	Missing   Kind = "missing"   // to a voter: do you suspect your leader?
	Reachable Kind = "reachable" // can you reach my peer port?
	Batch     Kind = "several"   // reply to several requests
)
