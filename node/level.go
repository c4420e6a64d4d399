package node

import (
	"errors"
	"fmt"

	"shardway/ack"
)

// unknownLevel returns the error of a node whose log has a level (format version) that this program does
// not support, with the remedy.
func unknownLevel(err error) error {
	if level, ok := errors.AsType[*ack.FormatVersionError](err); ok && level.Outdated() {
		return fmt.Errorf("node: the data directory was created by a development version: %w: start with an empty --data directory", err)
	}
	return fmt.Errorf("node: this cluster is beyond this program: %w: run the version of the other nodes on this --data directory (a finalized upgrade cannot be taken back)", err)
}

// keepLevel stores the level in force of the state s in the data directory, and announces it by gossip. It
// does nothing if that level is already stored.
func (n *Node) keepLevel(s *ack.State) {
	l := uint8(s.FormatVersion())
	if l <= max(n.o.Dir.Level(), uint8(ack.MinFormatVersion)) {
		return
	}
	err := n.o.Dir.KeepLevel(l)
	if err == nil {
		err = n.gossip.SetTags(n.tags())
	}
	if err != nil {
		n.fail(err)
	}
}
