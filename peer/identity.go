package peer

// Identity is the information about a node that each side sends in the preface.
type Identity struct {
	// Cluster is the id of the cluster. Empty means that the node belongs to none.
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
