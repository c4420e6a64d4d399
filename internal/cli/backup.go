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
func (c *backupCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	content, err := client.Backup(ctx)
	if err != nil {
		return err
	}
	backup, err := recovery.Inspect(content)
	if err != nil {
		return fmt.Errorf("the response of the node is %w: no file was written", err)
	}
	if err = replaceFile(c.File, content); err != nil {
		return fmt.Errorf("backup not written: %w", err)
	}
	if c.JSON {
		return writeJSON(session.out, backup)
	}
	_, err = fmt.Fprintf(session.out, "%s: cluster %s, %d shards, map of epoch %d\n", c.File, strings.Map(printable, backup.Cluster), backup.Shards, backup.Epoch)
	return err
}

type restoreCommand struct {
	File string `arg:"" help:"File written by backup."                                                        type:"path"`
	Node string `help:"ID of the first node of the restored cluster (else SHARDWAY_NODE, else random)." placeholder:"ID"`
	dataDirFlags
}

// Run initializes an empty data directory with the cluster of a backup.
func (c *restoreCommand) Run(session *session) error {
	content, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	options := c.options(session)
	if options.Node = c.Node; options.Node == "" {
		options.Node = variable(session.environ, "SHARDWAY_NODE")
	}
	result, err := recovery.Restore(options, content)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	return c.writeResult(session, result)
}

// replaceFile replaces a file atomically and durably.
func replaceFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
