package cli

import (
	"context"
	"fmt"
	"strings"
)

type rotateCommand struct {
	reasonFlag
	target
}

// Help describes the rotation with this command and the manual rotation.
func (c *rotateCommand) Help() string {
	return `Replaces the secret in three steps. A node makes a new secret. Then all nodes accept it,
then all nodes use it, and then no node accepts the old one. Each step ends on all nodes
before the next one starts. If a node does not follow, the command stops and names that
node. The cluster continues to work. Run the command again to continue, once a node that
has the new secret leads. Each node writes its own --secret-file. Copy the new content to
the place from which further nodes get their file.

Rotate manually if nodes may not write that file, or if the secret was disclosed:

  1. On each node, write the current secret and, as the second line, a new one (shardway
     keygen) into the file.
  2. On each node, swap the two lines.
  3. On each node, remove the old secret.

Nodes check the file every two seconds and log the change. Start the next step when all
nodes have logged it. This command can do the rest after the first step.

A person who has the old secret can also receive the new one from this command, as any
node does. After a manual rotation this is not possible: no node sends a secret that an
operator wrote into its file, and no node accepts messages about secrets from a node
without the newest one. That person can take part as a node until the old secret is
removed from every file, and for another 30 seconds on open streams.`
}

// Run rotates the secret.
func (c *rotateCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	rotation, err := client.Rotate(ctx, c.Reason)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, rotation)
	}
	_, err = fmt.Fprintf(session.out, "secret %s is the only one on %s\n", strings.Map(printable, rotation.Secret), strings.Map(printable, strings.Join(rotation.Nodes, ", ")))
	return err
}
