package cli

import (
	"context"
	"fmt"
	"strings"
)

type rotateCommand struct{ target }

// Help describes the rotation with this command and the manual rotation.
func (c *rotateCommand) Help() string {
	return `Makes a new secret on a node, has every node accept it, then use it, then accept
no other; each step on all nodes before the next. A node that does not follow
stops it: the command names it, nothing breaks, and run again it goes on where
it stopped, if a node leads that has the new secret. Every node writes its own
--secret-file; give the new content to wherever further nodes get theirs from.

By hand, where nodes may not write that file, and whenever somebody else has the
secret: on every node have the file hold the present secret, as the second line a
new one (shardway keygen), and nothing else; then swap the lines on every node;
then remove the old secret from every node. Nodes look at the file every two
seconds and log the change; go on when all have. Once all have the second line
this command may do the rest.

To somebody who has the secret this command would tell the new one too, as to any
node. By hand he does not get it: no node sends another one a secret that a person
put there, or takes a word about secrets from who does not have the newest one. He
can take part as a node until the old secret is gone from every file, and for
30 seconds more on streams that are open.`
}

// Run rotates the secret.
func (c *rotateCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	rotation, err := client.Rotate(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, rotation)
	}
	_, err = fmt.Fprintf(session.out, "secret %s is the only one on %s\n", strings.Map(printable, rotation.Secret), strings.Map(printable, strings.Join(rotation.Nodes, ", ")))
	return err
}
