package api

// JoinList is the response of GET /v1/joins: the nodes that have requested to join, and the members.
type JoinList struct {
	// Approval is the setting join-approval of this node, auto or manual, and Timeout its setting join-timeout.
	Approval string `json:"approval"`
	Timeout  string `json:"timeout"`
	// Joins is ascending by node and disk.
	Joins []NodeJoin `json:"joins"`
}

// NodeJoin is the stage of one node and one disk.
type NodeJoin struct {
	Node string `json:"node"`
	// Server is the server ID: the node ID, a slash and the disk.
	Server string `json:"server"`
	// Stage is requested, refused, expired, accepted, synchronized or active.
	Stage string `json:"stage"`
	// Ticket identifies the request. It is the index of its log entry, and zero without a request.
	Ticket uint64 `json:"ticket"`
	// Reason is the reason of the operator for the approval or the refusal.
	Reason string `json:"reason,omitempty"`
	// EffectiveIndex is the index of the log entry that admitted the server, and Snapshot the index of the newest snapshot
	// of the leader at that time. Both are zero if the server is not admitted, or has no record.
	EffectiveIndex uint64 `json:"effective_index"`
	Snapshot       uint64 `json:"snapshot"`
	// Stages contains the stages in the order in which they began. It is empty without a record.
	Stages []JoinStage `json:"stages"`
}

// JoinStage is one stage of a join.
type JoinStage struct {
	Stage string `json:"stage"`
	// At is the time at which the stage began, by the clock of the leader, in the form of RFC 3339.
	At string `json:"at"`
	// MS is the duration of the stage in milliseconds. It is zero for the last stage.
	MS uint64 `json:"ms"`
}

// JoinsService serves GET /v1/joins.
type JoinsService interface {
	// Joins returns the joins as far as this node has applied the log.
	Joins() JoinList
}
