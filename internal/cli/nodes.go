package cli

import (
	"context"
	"io"
	"time"

	"shardway/admin/api"
)

type nodesCommand struct{ target }

// Run lists the nodes.
func (c *nodesCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Nodes(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, list)
	}
	return writeNodes(session.out, list.Nodes)
}

// writeNodes prints one row for each node.
func writeNodes(w io.Writer, nodes []api.Node) error {
	table := newTable(w, "NODE", "STATE", "ROLE", "VOTES", "SHARDS", "WEIGHT", "ZONE", "APP", "APP-VERSION", "HEARD", "HTTP")
	for _, node := range nodes {
		table.row(node.ID, node.State, node.Role, yesNo(node.Voter), node.Shards, node.Weight, node.Zone, node.App, node.AppVersion, formatAge(node.LastHeartbeatMS), node.Endpoints["http"])
	}
	return table.flush()
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
func (c *endpointsCommand) Run(ctx context.Context, session *session) error {
	client, err := c.client(session)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Endpoints(ctx, c.Name)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(session.out, list)
	}
	table := newTable(session.out, "NODE", "KIND", "NAME", "ADDRESS")
	for _, endpoint := range list.Endpoints {
		table.row(endpoint.Node, endpoint.Kind, endpoint.Name, endpoint.Addr)
	}
	return table.flush()
}
