package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/rs/zerolog"

	"shardway/config"
	"shardway/node/recovery"
)

// dataDirFlags are the common flags of commands that change a data directory.
type dataDirFlags struct {
	Data     string `help:"The node's data directory (else SHARDWAY_DATA, else ./data)."                                                                             placeholder:"DIR"`
	MinEpoch uint64 `help:"Minimum epoch, for a machine with a wrong clock: the highest Shardway-Epoch that apps or stores received." placeholder:"EPOCH"`
	JSON     bool   `help:"Write JSON."                                                                                                                              name:"json"`
}

func (d *dataDirFlags) options(session *session) recovery.Options {
	defaults := config.Default()
	return recovery.Options{Data: cmp.Or(d.Data, variable(session.environ, "SHARDWAY_DATA"), defaults.Data), MinEpoch: d.MinEpoch, Log: warningLogger(session)}
}

// warningLogger returns a logger that prints only warnings and errors.
func warningLogger(session *session) zerolog.Logger {
	return zerolog.New(zerolog.ConsoleWriter{Out: session.err, NoColor: !isTerminal(session.err)}).Level(zerolog.WarnLevel)
}

type recoverCommand struct {
	Confirm              string `help:"ID of the cluster to abandon. Without it, only show the actions."         placeholder:"CLUSTER"`
	IgnoreReachableNodes bool   `help:"Continue although another program responds at the address of a previous node."`
	dataDirFlags
}

// Run prints the state in the data directory of a surviving node, or makes the node continue alone.
func (c *recoverCommand) Run(session *session) error {
	options := c.options(session)
	if c.Confirm == "" {
		return c.writeState(session, options)
	}
	options.Confirm = c.Confirm
	if !c.IgnoreReachableNodes {
		options.Reachable = recovery.IsListening
	}
	result, err := recovery.Recover(options)
	if errors.Is(err, recovery.ErrUnconfirmed) {
		return fmt.Errorf("%w: run `shardway recover --data %s` to see what would be abandoned", err, options.Data)
	}
	if err != nil {
		return err
	}
	return c.writeResult(session, result)
}

// writeState prints the state of the surviving node. It returns an error, so that scripts notice that
// nothing was changed.
func (c *recoverCommand) writeState(session *session, options recovery.Options) error {
	survivor, err := recovery.ReadSurvivor(options.Data, options.Log)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return writeSurvivor(w, survivor) }
	if c.JSON {
		write = func(w io.Writer) error { return writeJSON(w, survivor) }
	}
	if err := write(session.out); err != nil {
		return err
	}
	return fmt.Errorf("nothing was changed: when all other nodes are permanently stopped, run `shardway recover --data %s --confirm %s` on the survivor with the highest last entry", options.Data, survivor.Cluster)
}

// writeSurvivor prints the state in the data directory as text, with what a recovery means for each node.
func writeSurvivor(w io.Writer, survivor recovery.Survivor) error {
	table := newTable(w)
	table.row("node", survivor.Node)
	table.row("cluster", survivor.Cluster)
	table.row("last entry", fmt.Sprintf("index %d of term %d", survivor.Index, survivor.EntryTerm))
	table.row("map", fmt.Sprintf("epoch %d, %d shards", survivor.Epoch, survivor.Shards))
	if err := table.flush(); err != nil {
		return err
	}
	table = newTable(w, "\nNODE", "VOTES", "SHARDS", "RECOVERY")
	for _, peer := range survivor.Peers {
		fate := "refused until its data directory is wiped"
		if peer.Here {
			fate = "continues alone"
		}
		votes := "no"
		if peer.Voter {
			votes = "yes"
		}
		table.row(peer.ID, votes, peer.Shards, fate)
	}
	return table.flush()
}

// writeResult prints a summary of the recovered cluster, and the next step.
func (d *dataDirFlags) writeResult(session *session, result recovery.Result) error {
	if d.JSON {
		return writeJSON(session.out, result)
	}
	table := newTable(session.out)
	table.row("node", result.Node)
	table.row("cluster", fmt.Sprintf("%s, which continues from the state of %s", result.Cluster, result.FormerCluster))
	table.row("shards", result.Shards)
	table.row("new epochs", fmt.Sprintf("start above %d", result.MinEpoch))
	if result.BackupDir != "" {
		table.row("former state", "kept in "+result.BackupDir)
	}
	if err := table.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(session.out, "\nStart this node as before. The other nodes must join with empty data directories.\n")
	return err
}
