package cli

import (
	"context"
	"fmt"
	"strings"
)

type locateCommand struct {
	Key string `arg:"" help:"The key, as a request carries it."`
	target
}

// Run prints the shard and the owner of a key.
func (c *locateCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	at, err := client.Locate(ctx, c.Key)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, at)
	}
	t := newTable(s.out, "KEY", "SHARD", "OWNER", "ENDPOINT", "EPOCH")
	t.row(at.Key, at.Shard, at.Owner, at.Endpoint, at.Epoch)
	if err = t.flush(); err != nil {
		return err
	}
	if at.Unavailable != "" {
		if _, err = fmt.Fprintf(s.out, "\nunavailable: %s\n", strings.Map(printable, at.Unavailable)); err != nil {
			return err
		}
	}
	if at.StaleReturn {
		_, err = fmt.Fprintf(s.out, "\n%s\n", staleReturn(at.Owner))
	}
	return err
}
