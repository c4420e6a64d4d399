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

func (d *dataDirFlags) options(s *session) recovery.Options {
	c := config.Default()
	return recovery.Options{Data: cmp.Or(d.Data, variable(s.environ, "SHARDWAY_DATA"), c.Data), MinEpoch: d.MinEpoch, Log: warningLogger(s)}
}

// warningLogger returns a logger that prints only warnings and errors.
func warningLogger(s *session) zerolog.Logger {
	return zerolog.New(zerolog.ConsoleWriter{Out: s.err, NoColor: !isTerminal(s.err)}).Level(zerolog.WarnLevel)
}

type recoverCommand struct {
	Confirm              string `help:"ID of the cluster to abandon. Without it, only show the actions."         placeholder:"CLUSTER"`
	IgnoreReachableNodes bool   `help:"Continue although another program responds at the address of a previous node."`
	dataDirFlags
}

// Run prints the state in the data directory of a surviving node, or makes the node continue alone.
func (c *recoverCommand) Run(s *session) error {
	o := c.options(s)
	if c.Confirm == "" {
		return c.writeState(s, o)
	}
	o.Confirm = c.Confirm
	if !c.IgnoreReachableNodes {
		o.Reachable = recovery.Listens
	}
	r, err := recovery.Recover(o)
	if errors.Is(err, recovery.ErrUnconfirmed) {
		return fmt.Errorf("%w: run `shardway recover --data %s` to see what would be abandoned", err, o.Data)
	}
	if err != nil {
		return err
	}
	return c.writeResult(s, r)
}

// writeState prints the state of the surviving node. It returns an error, so that scripts notice that
// nothing was changed.
func (c *recoverCommand) writeState(s *session, o recovery.Options) error {
	v, err := recovery.Look(o.Data, o.Log)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return writeSurvivor(w, v) }
	if c.JSON {
		write = func(w io.Writer) error { return writeJSON(w, v) }
	}
	if err := write(s.out); err != nil {
		return err
	}
	return fmt.Errorf("nothing was changed: when all other nodes are permanently stopped, run `shardway recover --data %s --confirm %s` on the survivor with the highest last entry", o.Data, v.Cluster)
}

func writeSurvivor(w io.Writer, v recovery.Survivor) error {
	t := newTable(w)
	t.row("node", v.Node)
	t.row("cluster", v.Cluster)
	t.row("last entry", fmt.Sprintf("index %d of term %d", v.Index, v.Entry))
	t.row("map", fmt.Sprintf("epoch %d, %d shards", v.Epoch, v.Shards))
	if err := t.flush(); err != nil {
		return err
	}
	t = newTable(w, "\nNODE", "VOTES", "SHARDS", "RECOVERY")
	for _, p := range v.Peers {
		fate := "refused until its data directory is wiped"
		if p.Here {
			fate = "continues alone"
		}
		votes := "no"
		if p.Voter {
			votes = "yes"
		}
		t.row(p.ID, votes, p.Shards, fate)
	}
	return t.flush()
}

// writeResult prints the new cluster and the next step.
func (d *dataDirFlags) writeResult(s *session, r recovery.Result) error {
	if d.JSON {
		return writeJSON(s.out, r)
	}
	t := newTable(s.out)
	t.row("node", r.Node)
	t.row("cluster", fmt.Sprintf("%s, which continues from the state of %s", r.Cluster, r.Former))
	t.row("shards", r.Shards)
	t.row("epochs", fmt.Sprintf("above %d", r.Floor))
	if r.Kept != "" {
		t.row("former state", "kept in "+r.Kept)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "\nStart this node as before. The other nodes must join with empty data directories.\n")
	return err
}
