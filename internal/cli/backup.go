package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"shardway/node/recovery"
)

type backupCommand struct {
	File string `arg:"" help:"File to write; it is replaced once the backup is complete." type:"path"`
	target
}

// Run writes the control state of the cluster to a file.
func (c *backupCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	content, err := client.Backup(ctx)
	if err != nil {
		return err
	}
	b, err := recovery.Inspect(content)
	if err != nil {
		return fmt.Errorf("the response of the node is %w: no file was written", err)
	}
	if err = replaceFile(c.File, content); err != nil {
		return fmt.Errorf("backup not written: %w", err)
	}
	if c.JSON {
		return writeJSON(s.out, b)
	}
	_, err = fmt.Fprintf(s.out, "%s: cluster %s, %d shards, map of epoch %d\n", c.File, strings.Map(printable, b.Cluster), b.Shards, b.Epoch)
	return err
}

type restoreCommand struct {
	File string `arg:"" help:"File written by backup."                                                        type:"path"`
	Node string `help:"ID of the first node of the restored cluster (else SHARDWAY_NODE, else random)." placeholder:"ID"`
	dataDirFlags
}

// Run initializes an empty data directory with the cluster of a backup.
func (c *restoreCommand) Run(s *session) error {
	content, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	o := c.options(s)
	if o.Node = c.Node; o.Node == "" {
		o.Node = variable(s.environ, "SHARDWAY_NODE")
	}
	r, err := recovery.Restore(o, content)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	return c.writeResult(s, r)
}

// replaceFile replaces a file atomically and durably.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
