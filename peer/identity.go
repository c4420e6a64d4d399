package peer

// Identity is what a side says about itself in the preface.
type Identity struct {
	// Cluster is the cluster's id, empty while it belongs to none.
	Cluster string
	// Node is the node's id.
	Node string
	// Disk is the id of its data directory.
	Disk string
	// Boot is the node's boot counter.
	Boot uint64
	// Record is the record of its disk.
	Record
}
