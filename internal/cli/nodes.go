package cli

import (
	"context"
	"io"
	"time"

	"shardway/admin/api"
)

type nodesCommand struct{ target }

// Run lists the nodes.
func (c *nodesCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Nodes(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, list)
	}
	return writeNodes(s.out, list.Nodes)
}

func writeNodes(w io.Writer, nodes []api.Node) error {
	t := newTable(w, "NODE", "STATE", "ROLE", "VOTES", "SHARDS", "WEIGHT", "ZONE", "APP", "APP-VERSION", "HEARD", "HTTP")
	for _, n := range nodes {
		t.row(n.ID, n.State, n.Role, yesNo(n.Voter), n.Shards, n.Weight, n.Zone, n.App, n.AppVersion, formatAge(n.LastHeartbeatMS), n.Endpoints["http"])
	}
	return t.flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// formatAge formats the age of a heartbeat. A negative age means unknown.
func formatAge(ms int64) string {
	if ms < 0 {
		return ""
	}
	return (time.Duration(ms) * time.Millisecond).String() + " ago"
}

type endpointsCommand struct {
	Name string `help:"Only addresses with this name, such as http." placeholder:"NAME"`
	target
}

// Run lists the announced endpoints.
func (c *endpointsCommand) Run(ctx context.Context, s *session) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Endpoints(ctx, c.Name)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, list)
	}
	t := newTable(s.out, "NODE", "KIND", "NAME", "ADDRESS")
	for _, e := range list.Endpoints {
		t.row(e.Node, e.Kind, e.Name, e.Addr)
	}
	return t.flush()
}
