package node

import "fmt"

// belowLevel says why this program cannot be a node of a cluster, and what to do.
func belowLevel(err error) error {
	return fmt.Errorf("node: this cluster is beyond this program: %w: run the version of the other nodes on this --data directory (a level that was raised cannot be taken back)", err)
}
