package cli

import (
	"context"
	"fmt"
	"strings"
)

type rotateCommand struct{ target }

// Help tells the way with the command, and the one without.
func (c *rotateCommand) Help() string {
	return `Makes a new secret on a node, has every node accept it, then use it, then accept
no other; each step on all nodes before the next. A node that does not follow
stops it: the command names it, nothing breaks, and run again it goes on where
it stopped. Every node writes its own --secret-file; give the new content to
wherever further nodes get theirs from.

By hand, where nodes may not write that file: add the new secret as the second
line on every node, then make it the first on every node, then remove the old
one from every node. Nodes look at the file every two seconds and log the
change; go on when all have.

A secret that somebody else has learnt is replaced either way, but whoever has
it can listen in as a node until it is retired: by hand he does not see the new
one.`
}

// Run rotates the secret.
func (c *rotateCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	r, err := client.Rotate(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, r)
	}
	_, err = fmt.Fprintf(s.out, "secret %s is the only one on %s\n", r.Secret, strings.Join(r.Nodes, ", "))
	return err
}
